"""The runtime's one touch point with RQ: what a ticket looks like, and how RQ's bytes are read (G18)."""

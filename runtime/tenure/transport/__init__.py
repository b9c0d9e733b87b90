"""The runtime's one touch point with RQ: what a ticket looks like, and reading RQ's bytes without unpickling (G18)."""

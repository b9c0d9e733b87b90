"""Workers: agents, their slots, and the running of tasks under a lease."""

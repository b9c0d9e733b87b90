"""The lifetimes of running work, in this process. Nothing here is stored, or outlives the process."""

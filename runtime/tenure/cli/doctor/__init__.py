"""What `tenure doctor` makes of what it reads: pure functions from readings to findings."""

"""The scheduler: one leader, and the duties that keep executions moving."""

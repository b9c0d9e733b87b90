"""The client: start executions, watch them, and ask why they wait."""

"""The engine: definitions, replay, placement, and the driver that works through leases."""

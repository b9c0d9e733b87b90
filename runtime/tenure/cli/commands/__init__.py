"""The commands, one per module. `tenure.cli.group` has the table of them."""

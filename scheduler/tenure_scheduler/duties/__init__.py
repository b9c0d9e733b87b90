"""The duties of the leading scheduler, one per file.

Each does one bounded piece of work per `run_once` and says in its report what it did. Time, stopping and
logging of the round belong to the loop; every write is checked again by its script.
"""

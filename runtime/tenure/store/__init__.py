"""The store: every key, every atomic step, and the typed calls to both. Redis holds the truth."""

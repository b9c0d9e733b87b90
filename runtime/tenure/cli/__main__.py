"""`python -m tenure.cli` is `tenure`, with the current folder importable."""

from tenure.cli import main

main()

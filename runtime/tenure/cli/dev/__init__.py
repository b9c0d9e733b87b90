"""`tenure dev`: everything one needs while writing tasks and recipes, in one terminal."""

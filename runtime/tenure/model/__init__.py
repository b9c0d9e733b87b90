"""What Tenure's values mean: states, needs, plain data, retries. Nothing here does I/O."""

"""A soak of the usage pipeline's runner: many rounds in one process, and what of it grows."""

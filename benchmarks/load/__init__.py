"""Load on a running cluster by many users at once."""

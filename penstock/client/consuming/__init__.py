"""What one consumer decides: positions, fetching, and what a poll returns."""

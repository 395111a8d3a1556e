"""The client listener: produce and consume streams, and calls."""

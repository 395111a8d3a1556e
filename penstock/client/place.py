"""Where messages are read: one partition of one topic."""

Place = tuple[str, int]
"""(topic, partition)."""

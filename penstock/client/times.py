"""Times of the client: in ms, of the clock that its cores are told."""

NEVER = float("inf")
"""A time that does not come."""

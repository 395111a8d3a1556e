"""Core: how fast a principal may go."""

"""Core: parts of a limit that brokers hold for a time, divided by demand."""

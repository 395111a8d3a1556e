"""Metadata stores as brokers use them: real servers, killed, stopped and copied."""

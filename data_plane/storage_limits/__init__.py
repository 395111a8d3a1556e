"""Core: what tenants keep on all brokers, and who has reached their limit of it."""

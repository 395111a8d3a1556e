"""Load by many users on real brokers."""

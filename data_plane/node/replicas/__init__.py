"""The replicas of one broker: each with its role, made durable together, replicated, trimmed."""

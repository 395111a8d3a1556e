"""What a tenant manages over REST: topics, keys, limits, usage and invoices."""

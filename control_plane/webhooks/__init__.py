"""Signed webhooks: a tenant's events, sent to its own https endpoints by threads of the worker."""

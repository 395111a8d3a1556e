"""The end of a tenant: it is closed, can be reopened for some time, and is purged after it."""

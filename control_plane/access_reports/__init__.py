"""Django app: each month's report of who may do what in a tenant, and what of it looks unused."""

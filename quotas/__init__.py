"""Django app: plans, and the limits of tenants."""

"""Django app: tenants, people, roles, service accounts and API keys."""

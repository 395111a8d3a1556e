"""Django app: the topics that tenants want."""

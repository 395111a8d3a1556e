"""People of a tenant: who belongs to it with which role, and who is invited."""

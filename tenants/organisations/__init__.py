"""Organisations: who belongs to one with which role, who is invited, and which tenants it owns."""

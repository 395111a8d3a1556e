"""Couriers: threads of the worker that bring events to places of tenants, from a position, under a lease each."""

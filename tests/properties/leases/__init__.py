"""Properties of leases."""

"""A synthetic quarter of three tenants with faults, billed as the service bills and compared with an oracle."""

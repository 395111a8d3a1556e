"""The topic `__audit` of a tenant: its audit log, written there entry by entry by couriers of the worker."""

"""Django app: the way to the brokers: deliveries, bootstrap, what the cluster looks like, reconciliation."""

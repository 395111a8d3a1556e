"""Wing of the node: limits of tenants that all brokers share by demand."""

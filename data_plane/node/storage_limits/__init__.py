"""Wing of the node: what tenants keep on all brokers, reported to the controller, and the refusal of what is above."""

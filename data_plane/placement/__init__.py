"""Which brokers hold which partitions: pure rules, asked by the control plane and by `penstock dev up`."""

"""Penstock beside Apache Kafka and NATS JetStream on the same machine, in turns: `make bench ONLY=peers`."""

"""How the cost of a message grows over partitions, producers, sizes and copies."""

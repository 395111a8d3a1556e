"""What the partitions and consumers of this broker used, read and written into `__usage`."""

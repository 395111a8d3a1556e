"""Consumer groups: the partitions of `__groups` that this broker coordinates, and the calls of members."""

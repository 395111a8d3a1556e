"""Core: one partition's log on one disk, and the journal that all partitions of a log directory share."""

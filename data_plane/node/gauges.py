"""What each gauge of a broker says: numbers that go up and down, looked up when somebody asks."""

from collections.abc import Mapping
from types import MappingProxyType

GAUGES: Mapping[str, str] = MappingProxyType(
    {
        "replicas": "Replicas that this broker holds, led ones included.",
        "replicas_broken": "Of those, stopped by a fault that needs somebody: they neither lead nor follow.",
        "replicas_without_writes": "Of those led, taking no writes now, for want of disk or of trust in it.",
        "partitions_led": "Partitions of which this broker is the leader.",
        "partitions_under_replicated": "Of those led, with a replica outside the in-sync set. 0 when all is well.",
        "partitions_under_min_in_sync": "Of those led, with fewer in sync than writes demand: `acks=all` is refused.",
        "controller": "1 on the broker that is the controller, else 0. The sum over all brokers is 1.",
        "registered": "1 while the broker's registration is in force: without it it serves nothing.",
        "log_bytes": "Bytes of all replicas' logs as stored.",
        "group_partitions_coordinated": "Partitions of `__groups` whose consumer groups this broker coordinates.",
        "client_connections": "Connections of clients that have calls or streams open.",
        "strays": "Directories of replicas that the metadata do not know and that are set aside.",
        "damaged_files": "Segment files with damage that are kept aside for somebody to look at.",
        "damaged_files_bytes": "Bytes of those; when room is short they are the first to go.",
        "clock_off_ms": "How far this broker's clock is from the middle of all brokers', ms; 0 if it is not known.",
        "clock_trusted": "1 while the clock is near enough to the others' for retention by time.",
        "disk_refuses_writes": "1 while the disk is fuller than writes may make it.",
        "disk_read_only": "1 while the disk takes nothing at all.",
        "disk_slow": "1 while the disk's syncs are so slow that the broker leads nothing.",
    }
)
"""Name -> what it says, for the metrics' help and the reference."""

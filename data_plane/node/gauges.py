"""What each gauge of a broker says: numbers that go up and down, looked up at each scrape."""

from collections.abc import Mapping
from types import MappingProxyType

GAUGES: Mapping[str, str] = MappingProxyType(
    {
        "replicas": "Replicas that this broker stores, led ones included.",
        "replicas_broken": "Replicas stopped by a fault that an operator has to repair: they neither lead nor follow.",
        "replicas_unborn": "Replicas without records whose directory is still to be made or synced; soon 0 again.",
        "replicas_without_writes": "Replicas that take no writes now because the only copy is damaged.",
        "partitions_led": "Partitions of which this broker is the leader.",
        "partitions_under_replicated": "Partitions led here with a replica outside the in-sync set. 0 is healthy.",
        "partitions_under_min_in_sync": "Partitions led here with too few replicas in sync: `acks=all` is refused.",
        "controller": "1 on the broker that is the controller, else 0. The sum over all brokers is 1.",
        "limits_leased": "Limits of tenants that brokers share by demand now, on the controller; 0 on the others.",
        "tenants_near_storage_limit": "Tenants that use 80 % of `storage_bytes_max` or more, on the controller.",
        "tenants_at_storage_limit": "Tenants whose producing is refused by `storage_bytes_max`, on the controller.",
        "registered": "1 while the broker is registered. An unregistered broker serves nothing.",
        "log_bytes": "Bytes of all replicas' logs as stored.",
        "group_partitions_coordinated": "Partitions of `__groups` whose consumer groups this broker coordinates.",
        "client_connections": "Connections of clients that have calls or streams open.",
        "strays": "Directories of replicas that the metadata does not know and that are set aside.",
        "damaged_files": "Segment files with damage that are kept aside for an operator to look at.",
        "damaged_files_bytes": "Bytes of segment files with damage. They are deleted first when disk space is short.",
        "failure_domain_wrong": "1 while this broker's host is named in two zones, or its zone has no active broker.",
        "clock_off_ms": "How far this broker's clock is from the middle of all brokers', ms. 0 if unknown.",
        "clock_trusted": "1 while the clock is near enough to the other brokers' for retention by time.",
        "disk_refuses_writes": "1 while the disk is below its soft watermark and refuses produce.",
        "disk_read_only": "1 while the disk is below its hard watermark and takes no write at all.",
        "disk_slow": "1 while the disk's syncs are so slow that the broker steps aside from leading.",
    }
)
"""Name -> what it says, for the metrics' help and the reference."""

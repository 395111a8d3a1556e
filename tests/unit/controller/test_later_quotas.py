"""Limits that brokers of Penstock 0.1 do not know are left out until every broker knows them."""

import json

from data_plane.controller import tenants
from data_plane.metadata import model
from data_plane.metadata.features import LEASES
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Put

LATER = {
    "connections_max": 3,
    "groups_max": 4,
    "requests_per_s": 5,
    "connection_attempts_per_s": 6,
    "rate_burst_ms": 700,
    "rate_floor_percent": 8,
    "storage_bytes_max": 9,
}
WANTED = model.TenantQuotas(produce_bytes_per_s=7, partitions_max=9, **LATER)


def stored(level: int) -> dict[str, int]:
    image = ClusterImage()
    image.level = level
    (change,) = tenants.put_tenant(image, "acme", generation=1, quotas=WANTED).changes
    assert isinstance(change, Put)
    found: dict[str, int] = json.loads(change.value)["quotas"]
    return found


def test_below_the_level_brokers_get_what_the_release_before_reads() -> None:
    assert stored(LEASES - 1) == {"produce_bytes_per_s": 7, "partitions_max": 9}


def test_from_the_level_on_they_get_all_of_it() -> None:
    assert stored(LEASES) == {"produce_bytes_per_s": 7, "partitions_max": 9, **LATER}

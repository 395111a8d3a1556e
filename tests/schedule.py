"""Which test files share a worker, and which are begun first, so that all workers of a run end at about the same time.

A worker takes whole groups: a file, or a folder whose files share what takes long to start. What is named in
`LONGEST_FIRST` is begun in that order, and the short files of `SHORT_LAST` at the end: a worker that took a long one
there would run alone. All between them comes in the random order of the run.
"""

from functools import cache

import pytest
from xdist.scheduler import LoadFileScheduling

SHARED = (
    "tests/architecture",
    "tests/end_to_end/console",
    "tests/end_to_end/docs",
    "tests/spark_usage",
)
"""Folders of which one worker takes all: their service or session is started once, the source is parsed once."""
LONGEST_FIRST = (
    "tests/spark_usage",
    "tests/end_to_end/console",
    "tests/end_to_end/test_demo.py",
    "tests/control_plane/test_isolation.py",
    "tests/end_to_end/docs",
    "tests/control_plane/test_on_sqlite.py",
    "tests/control_plane/service/test_embedded.py",
    "tests/control_plane/service/test_with_servers.py",
    "tests/control_plane/api/test_hostile_input.py",
    "tests/control_plane/billing/test_from_brokers_to_proof.py",
    "tests/control_plane/service/test_growing.py",
    "tests/integration/reconcile/test_quarter.py",
    "tests/integration/fail_over",
    "tests/control_plane/api/test_openapi_conformance.py",
    "tests/control_plane/test_permissions.py",
    "tests/control_plane/api/test_lists.py",
    "tests/control_plane/test_dry_run.py",
    "tests/control_plane/test_every_limit.py",
    "tests/control_plane/web/test_pages.py",
    "tests/integration/cli/test_whole_service.py",
    "tests/integration/upgrade/test_rolling_upgrade.py",
    "tests/integration/chaos/test_chaos.py",
    "tests/integration/hosts/test_three_zones.py",
    "tests/simulation/test_seeds.py",
    "tests/simulation/test_planted.py",
    "tests/simulation/test_losses.py",
    "tests/simulation/test_operated.py",
    "tests/integration/metadata/test_stores_under_faults.py",
    "tests/integration/placement/test_reassignment.py",
    "tests/integration/losses/test_replication_factors.py",
    "tests/integration/metering/test_deletion.py",
    "tests/integration/bad_input/test_full_disk.py",
    "tests/compiled/test_compiled_cores.py",
    "tests/compiled/test_compiled_wheel.py",
)
"""Files, and folders of which every file is long."""
SHORT_LAST = ("tests/unit", "tests/golden")


def group_of(nodeid: str) -> str:
    """The folder or file that a test runs with."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in SHARED if file.startswith(f"{folder}/")), file)


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The longest groups first and the short ones last, each whole; the rest as it came."""
    return sorted(items, key=lambda item: _rank(group_of(item.nodeid)))


@cache
def _rank(group: str) -> int:
    for number, name in enumerate(LONGEST_FIRST):
        if group == name or group.startswith(f"{name}/"):
            return number
    return len(LONGEST_FIRST) + group.startswith(tuple(f"{name}/" for name in SHORT_LAST))


class WholeGroups(LoadFileScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives groups to workers in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

"""A broker has more partitions than a process may have files open."""

import resource
from pathlib import Path

import psutil
import pytest

from tests.integration.brokers import brokers
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

PARTITIONS = 700
SPARE_DESCRIPTORS = 400
"""Beyond what a broker has open at rest: more than it makes at once, and fewer than there are partitions."""
WRITTEN_AT_ONCE = 50


def test_partitions_that_nobody_writes_to_hold_no_file_open(tmp_path: Path) -> None:
    with brokers(tmp_path) as cluster:
        tenant = cluster.tenant("tn_many")
        pids = cluster.pids()
        processes = [psutil.Process(pid) for pid in pids.values()]
        at_rest = [process.num_fds() for process in processes]
        for process, descriptors in zip(processes, at_rest, strict=True):
            process.rlimit(resource.RLIMIT_NOFILE, (descriptors + SPARE_DESCRIPTORS,) * 2)
        topic_id = cluster.create_topic(tenant, "many", PARTITIONS)
        cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
        assert cluster.pids() == pids
        cluster.wait_until(
            "no files are open but for what was open before and a few connections",
            lambda: all(
                process.num_fds() <= before + 30 for process, before in zip(processes, at_rest, strict=True)
            ),
        )
        with cluster.client(tenant) as client, client.producer() as producer:
            sent = [producer.send("many", b"x", partition=number) for number in range(0, PARTITIONS, 7)]
            assert {delivery.result(PATIENCE_S).offset for delivery in sent} == {0}
        cluster.kill(*pids)
        cluster.start()
        cluster.wait_until("all replicas are in sync again", lambda: cluster.whole(topic_id))


def test_partitions_that_are_all_written_to_give_their_files_back(tmp_path: Path) -> None:
    with brokers(tmp_path, settings={"limits": {"written_logs_max": WRITTEN_AT_ONCE}}) as cluster:
        tenant = cluster.tenant("tn_many")
        pids = cluster.pids()
        topic_id = cluster.create_topic(tenant, "many", PARTITIONS)
        cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
        processes = [psutil.Process(pid) for pid in pids.values()]
        at_rest = [process.num_fds() for process in processes]
        for process, descriptors in zip(processes, at_rest, strict=True):
            process.rlimit(resource.RLIMIT_NOFILE, (descriptors + SPARE_DESCRIPTORS,) * 2)
        with cluster.client(tenant) as client, client.producer() as producer:
            for first in range(0, PARTITIONS, WRITTEN_AT_ONCE):
                numbers = range(first, min(first + WRITTEN_AT_ONCE, PARTITIONS))
                sent = [producer.send("many", b"x", partition=number) for number in numbers]
                assert {delivery.result(PATIENCE_S).offset for delivery in sent} == {0}
                cluster.wait_until(
                    "the files of what was written before are closed",
                    lambda: all(
                        process.num_fds() <= before + 5 * WRITTEN_AT_ONCE
                        for process, before in zip(processes, at_rest, strict=True)
                    ),
                )
        assert cluster.pids() == pids

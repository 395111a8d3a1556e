"""What a broker tells operators over HTTP, and what it writes to its log."""

import json
from collections.abc import Iterator
from functools import partial

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.integration.brokers import Brokers, brokers
from tests.integration.bystander import Bystander
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def bystander(cluster: Brokers) -> Iterator[Bystander]:
    with Bystander(cluster) as watching:
        yield watching


def metrics_of(cluster: Brokers, number: int) -> dict[str, float]:
    """Every sample without labels, by name; the text must be OpenMetrics."""
    status, text = cluster.http(number, "/metrics")
    assert status == 200
    assert text.endswith("# EOF\n")
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {sample.name: sample.value for sample in samples if not sample.labels}


def total(cluster: Brokers, name: str) -> float:
    return sum(metrics_of(cluster, number)[name] for number in cluster.ids)


def test_a_running_broker_is_healthy_and_ready(cluster: Brokers) -> None:
    for number in cluster.ids:
        status, body = cluster.http(number, "/healthz")
        told = json.loads(body)
        assert (status, told["healthy"]) == (200, True)
        assert 0 <= told["loop_age_s"] < 5
        # What another test did to the cluster may still be a warning.
        cluster.wait_until("it is ready, and nothing is to be said", partial(is_well, cluster, number))


def is_well(cluster: Brokers, number: int) -> bool:
    status, body = cluster.http(number, "/readyz")
    return (status, json.loads(body)) == (200, {"ready": True, "reason": ""})


def test_other_paths_are_told_what_there_is(cluster: Brokers) -> None:
    for path in ("/", "/metrics/", "/healthz/../secret", "/debug"):
        status, body = cluster.http(1, path)
        assert (status, json.loads(body)) == (404, {"error": "there are /healthz, /readyz and /metrics"})


def test_metrics_count_what_passes(cluster: Brokers, bystander: Bystander) -> None:
    names = ("produced_batches", "produced_messages", "produced_bytes", "pushed_bytes", "replicated_bytes",
             "held_batches", "journal_rounds")  # fmt: skip
    before = {name: total(cluster, f"penstock_{name}_total") for name in names}
    synced = total(cluster, "penstock_fsync_seconds_count")
    bystander.check()
    after = {name: total(cluster, f"penstock_{name}_total") for name in names}
    assert after["produced_messages"] == before["produced_messages"] + 6
    assert all(after[name] > before[name] for name in names)
    assert total(cluster, "penstock_fsync_seconds_count") > synced


def test_metrics_show_roles_and_replicas(cluster: Brokers, bystander: Bystander) -> None:
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(bystander.topic_id))
    wanted = {"controller": 1.0, "registered": 3.0, "replicas": 9.0, "partitions_led": 3.0}
    wanted |= dict.fromkeys(
        ("replicas_broken", "partitions_under_replicated", "partitions_under_min_in_sync"), 0.0
    )
    # Each broker tells what it knows, and they do not learn of a change at one moment.
    wait_until(
        "the roles are told",
        lambda: {name: total(cluster, f"penstock_{name}") for name in wanted} == wanted,
        instead=lambda: {name: total(cluster, f"penstock_{name}") for name in wanted},
    )
    assert [metrics_of(cluster, number)["penstock_replicas"] for number in cluster.ids] == [3, 3, 3]


def test_a_broker_that_is_gone_shows_in_the_metrics_of_the_others(
    cluster: Brokers, bystander: Bystander
) -> None:
    gone = cluster.ids[-1]
    left = cluster.ids[:-1]
    cluster.kill(gone)
    cluster.wait_until(
        "the others lead what is under-replicated",
        lambda: sum(cluster.metric(n, "penstock_partitions_under_replicated") for n in left) == 3,
    )
    bystander.check()
    assert sum(cluster.metric(n, "penstock_partitions_under_min_in_sync") for n in left) == 0
    cluster.start(gone)
    cluster.wait_until(
        "nothing is under-replicated",
        lambda: sum(cluster.metric(n, "penstock_partitions_under_replicated") for n in cluster.ids) == 0,
    )


def test_every_line_of_the_log_is_one_object_with_time_level_and_broker(
    cluster: Brokers, bystander: Bystander
) -> None:
    for number in cluster.ids:
        lines = [json.loads(line) for line in cluster.output(number).splitlines()]
        assert "started" in [line["message"] for line in lines]
        for line in lines:
            assert line["time"].endswith("Z")
            assert (line["broker"], line["level"]) in ((number, "info"), (number, "warning"))

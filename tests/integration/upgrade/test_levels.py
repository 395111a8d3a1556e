"""Brokers keep to the feature level in force: one that does not support it does not start, and does not stay."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from data_plane.broker.metadata_config import open_store
from data_plane.metadata.features import FEATURES_KEY, HIGHEST, FeaturesRecord, version_key
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Delete, Put
from penstock import __version__
from penstock.contract.ids import BrokerId
from tests.integration.brokers import Brokers, brokers

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("levels") / "cluster") as running:
        yield running


def image(cluster: Brokers, changes: Sequence[Change] = ()) -> ClusterImage:
    """What the metadata store holds after these changes, which no broker made."""

    async def read() -> ClusterImage:
        store = await open_store(str(cluster.directory.metadata_file), cluster.spec.cluster_id)
        try:
            if changes:
                await store.txn((), changes)
            listing = await store.range("/")
        finally:
            await store.close()
        found = ClusterImage()
        found.load(listing.items, listing.revision)
        return found

    return asyncio.run(read())


def test_a_new_cluster_is_at_the_highest_level_and_its_brokers_say_what_they_run(cluster: Brokers) -> None:
    described = cluster.admin.describe_cluster()
    assert described.feature_level == HIGHEST
    assert described.cluster_id == cluster.spec.cluster_id
    assert {(broker.version, broker.level_max) for broker in described.brokers} == {(__version__, HIGHEST)}
    for number in cluster.ids:
        assert f'version="{__version__}"' in cluster.http(number, "/metrics")[1]


def test_a_registered_broker_that_does_not_say_that_it_supports_the_level_is_fenced(cluster: Brokers) -> None:
    last = BrokerId(cluster.ids[-1])
    epoch = image(cluster).epoch_of(last)
    image(cluster, [Delete(version_key(last))])

    def back() -> bool:
        now = image(cluster)
        return now.epoch_of(last) > epoch and now.supported_by(last).supports(HIGHEST)

    cluster.wait_until("it was fenced and has registered again, as what it is", back)


def test_a_broker_does_not_start_in_a_cluster_above_its_highest_level(cluster: Brokers) -> None:
    last = cluster.ids[-1]
    cluster.stop()
    for number in cluster.ids:
        assert cluster.status(number) == 0
    image(cluster, [Put(FEATURES_KEY, FeaturesRecord(level=HIGHEST + 1).encode())])
    try:
        cluster.launch(last)
        assert cluster.status(last) == 2
        assert cluster.output(last).splitlines()[-1] == (
            f"penstock-broker: the cluster is at feature level {HIGHEST + 1}, this broker, Penstock {__version__},"
            f" supports 1 to {HIGHEST}; start a newer version of the broker"
        )
    finally:
        image(cluster, [Put(FEATURES_KEY, FeaturesRecord(level=HIGHEST).encode())])
    cluster.start()
    assert image(cluster).level == HIGHEST

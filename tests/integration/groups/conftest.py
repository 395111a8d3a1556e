"""Three brokers with the service's own topics, for the tests of one module."""

from collections.abc import Iterator

import pytest

from tests.integration.brokers import Brokers, brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("groups") / "cluster", internal_topics=True) as running:
        yield running

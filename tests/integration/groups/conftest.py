"""Three brokers with the service's own topics, for the tests of one module."""

from collections.abc import Iterator

import pytest

from data_plane.dev.provisioning import provision_internal_topics
from tests.integration.brokers import Brokers, brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("groups") / "cluster") as running:
        provision_internal_topics(running.admin, 3)
        yield running

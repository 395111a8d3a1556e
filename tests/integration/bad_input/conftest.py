"""A cluster a module, with a bystander that is asked after each test."""

from collections.abc import Iterator

import pytest

from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.bystander import Bystander, Unharmed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def bystander(cluster: Brokers) -> Iterator[Bystander]:
    with Bystander(cluster) as watching:
        yield watching
        watching.check()


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    """The tenant under test."""
    return cluster.tenant("tn_one")


@pytest.fixture
def unharmed(cluster: Brokers, bystander: Bystander) -> Iterator[None]:
    """The test neither ends a broker nor makes one log an error, and others are served as before."""
    with Unharmed(cluster):
        yield
        bystander.check(newcomer=False)

"""Three brokers a module, and a tenant of its own for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.integration.brokers import Brokers, Tenant, brokers

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant(f"tn_enforced{next(_NUMBERS)}")

"""The form of a real service: PostgreSQL and Redis."""

from collections.abc import Iterator

import pytest

from tests.control_plane.service.deliveries import Deliveries
from tests.control_plane.service.running import Service, with_servers
from tests.control_plane.service.running import service as started

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.drawn(shares=3, family="services that lose processes"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(tmp_path_factory.mktemp("servers"), with_servers) as running:
        yield running


class TestWithServers(Deliveries):
    """Nothing else."""

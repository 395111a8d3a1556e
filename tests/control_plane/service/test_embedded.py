"""The embedded form: SQLite, and Celery's filesystem transport."""

from collections.abc import Iterator

import pytest

from tests.control_plane.service.deliveries import Deliveries
from tests.control_plane.service.killed_in_requests import KilledInRequests
from tests.control_plane.service.placing import Placing
from tests.control_plane.service.running import Service, embedded
from tests.control_plane.service.running import service as started

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(tmp_path_factory.mktemp("embedded"), embedded) as running:
        yield running


class TestEmbedded(Deliveries, Placing, KilledInRequests):
    """Nothing else."""

"""Every process of a service with PostgreSQL and Redis is killed: each is back, and does what it does, in a while."""

from pathlib import Path

import pytest

from local.free_ports import HOST
from local.service_layout import Backends
from tests.integration import servers
from tests.integration.fail_over.killing import kill_every_process, running

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.drawn(shares=3, family="services that lose processes"),
]


def test_every_process_that_is_killed_is_back_after_a_while(tmp_path: Path, full: bool) -> None:
    with servers.postgresql() as database, servers.redis() as redis:
        backends = Backends(
            database_url=f"postgresql://penstock@{HOST}:{database.port}/postgres",
            celery_broker_url=f"redis://{HOST}:{redis.port}/0",
        )
        with running(tmp_path, backends) as service:
            kill_every_process(service, full)

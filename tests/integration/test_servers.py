"""Other people's servers end with the tests that started them, also when those are killed."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import psutil
import pytest

from local import guardian
from tests.integration import servers

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.mark.parametrize("server", [servers.postgresql, servers.redis, servers.etcd])
def test_a_server_carries_the_mark_of_the_tests_that_started_it(
    server: Callable[[], AbstractContextManager[servers.Server]],
) -> None:
    ((name, value),) = guardian.mark().items()
    with server() as running:
        assert psutil.Process(running.pid).environ()[name] == value

"""Every process of a service in the embedded form is killed: each is back, and does what it does, after a while."""

from pathlib import Path

import pytest

from local.service_layout import Backends
from tests.integration.fail_over.killing import kill_every_process, running

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.drawn(shares=3, family="services that lose processes"),
]


def test_every_process_that_is_killed_is_back_after_a_while(tmp_path: Path, full: bool) -> None:
    with running(tmp_path, Backends()) as service:
        kill_every_process(service, full)

"""A tenant, an endpoint that runs, and a configuration that lets webhooks lead to it."""

from collections.abc import Iterator

import msgspec
import pytest

from control_plane import config
from control_plane.config import WebhooksConfig
from tests.control_plane.world import House, make_house
from tests.webhook_receiver import Receiver, receiver


@pytest.fixture(scope="session")
def _running() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def endpoint(_running: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """An endpoint at 127.0.0.1, which takes everything until a test says otherwise."""
    configured = WebhooksConfig(allowed_networks=("127.0.0.1",), ca_file=_running.ca_file)
    whole = msgspec.structs.replace(config.current(), webhooks=configured)
    monkeypatch.setattr(config, "current", lambda: whole)
    fresh = Receiver(_running.host, _running.ca_file, _running.port)
    _running.got = fresh.got = []
    _running.script = lambda got: fresh.script(got)
    fresh.ended = _running.ended
    return fresh


@pytest.fixture
def house(db: None) -> House:
    return make_house("acme")

"""The web process gives large messages and what passwords take back, however often a person looks at them."""

import psutil
import pytest

import penstock
from local.service_processes import WEB, find
from tests.end_to_end.console.conftest import Visitor
from tests.end_to_end.console.service import Service
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]

MESSAGES = 20
VIEWS = 30
GROWTH_BYTES_MAX = 120_000_000
"""Each view reads twenty million bytes; one that stays would be seen after six."""


def resident_bytes(service: Service) -> int:
    process = find(service.directory, WEB)
    assert process is not None
    return int(psutil.Process(process.pid).memory_info().rss)


def test_views_of_large_messages_leave_nothing_in_the_web_process(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("large", partitions=1)
    text = visitor.make_key("a program")
    with (
        penstock.Client(bootstrap=service.bootstrap, api_key=text) as client,
        client.producer() as producer,
    ):
        for _ in range(MESSAGES):
            producer.send("large", b"\xff" * 1_000_000).result(timeout=PATIENCE_S)
    pages = visitor.context.request
    address = f"{visitor.url}/t/{visitor.tenant}/topics/large/messages"
    assert pages.get(address).ok
    before = resident_bytes(service)
    for _ in range(VIEWS):
        assert pages.get(address).ok
    assert resident_bytes(service) - before < GROWTH_BYTES_MAX

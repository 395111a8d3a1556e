"""Several processes do the same at once: one cut, one import, one invoice."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
from django.db import connections

from billing import import_actions, invoice_actions, period_actions
from billing.models import Cut, CutUsage, DataSetRun, Invoice, InvoiceLine, PriceBook
from control_plane.audit import queries as audit
from daemon.data_set_store import FolderStore
from tests.control_plane.billing.world import TESTER, Part, World
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 4
PARTS = [Part(first=0, end=100, size=5_000), Part(partition=1, first=0, end=50, size=1_000)]
ResultT = TypeVar("ResultT")


def at_once(work: Callable[[], ResultT]) -> list[ResultT]:
    """What each of `THREADS` threads got that began together."""
    barrier = Barrier(THREADS)

    def one(_: int) -> ResultT:
        try:
            barrier.wait(PATIENCE_S)
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


@pytest.fixture
def world(transactional_db: None, tmp_path: Path) -> World:
    return World(tmp_path / "datasets")


def test_a_period_that_many_end_at_once_is_ended_once(world: World) -> None:
    acme = world.tenant("acme")
    end = datetime.now(UTC)
    cuts = at_once(lambda: period_actions.close_period(TESTER, acme.public_id, end=end).public_id)
    assert len(set(cuts)) == 1
    assert (Cut.objects.count(), Invoice.objects.count(), PriceBook.objects.count()) == (1, 1, 1)
    assert audit.first_break(acme.public_id) is None


def test_a_run_that_many_import_at_once_is_imported_once_and_the_invoice_is_issued_once(world: World) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, PARTS)
    world.covered(cut, PARTS)
    world.spark()

    def work() -> str:
        import_actions.import_data_sets(FolderStore(world.datasets))
        return invoice_actions.finalize(cut.public_id).status

    assert set(at_once(work)) == {"issued"}
    assert DataSetRun.objects.count() == len(import_actions.ORDER)
    assert CutUsage.objects.count() == 4
    assert InvoiceLine.objects.count() == 2
    told = [entry.action for entry in audit.entries(acme.public_id)]
    assert told.count("invoice.issue") == 1

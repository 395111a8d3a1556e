"""The controller's office of budgets: nothing is granted that is not written, and frames say what was meant."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.leases.budget_terms import ENTRIES_MAX, BudgetAnswer, BudgetRequest, Granted, Want
from data_plane.metadata import model
from data_plane.metadata.broker_records import CONTROLLER_KEY, ControllerRecord
from data_plane.metadata.budget_use import BudgetKey
from data_plane.metadata.port import OutcomeUnknown, StoreUnavailable, TxnResult
from data_plane.node.leasing.budget_messages import answer_frame, read_answer, read_request, request_frame
from data_plane.node.leasing.budget_office import BudgetOffice
from penstock.contract.frames import FrameError
from penstock.contract.ids import BrokerId
from penstock.rules.budgets import PARTS, Budget
from tests.unit.controller.setup import ACME, Store

pytestmark = pytest.mark.pure

KEY = BudgetKey(ACME, "bud_1")
BUDGET = Budget(
    budget_id="bud_1",
    name="b",
    period="month",
    amount=100_000,
    unit="messages",
    policy="refuse",
    message_in=PARTS,
)
WANT = Want(term=0, began_ms=0, holds=0, wants=100, needs=1, received=0, returned=0, owed=0)


class Writer:
    """The store, which fails as it is asked to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fails: list[type[Exception] | bool] = []

    async def txn(self, compares: Any, changes: Any) -> TxnResult:
        fails = self.fails.pop(0) if self.fails else False
        if fails is True:
            return TxnResult(succeeded=False, revision=self.store.revision)
        if isinstance(fails, type):
            raise fails("away")
        return TxnResult(succeeded=self.store.txn(compares, changes), revision=self.store.revision)


def office() -> tuple[Writer, BudgetOffice]:
    store = Store()
    tenant = model.TenantRecord(tenant=ACME, budgets=(BUDGET,))
    store.put(model.tenant_key(ACME), tenant.encode())
    store.put(CONTROLLER_KEY, ControllerRecord(broker_id=BrokerId(1), incarnation="i").encode())
    writer = Writer(store)

    async def here(*_: Any) -> bool:
        return True

    view = SimpleNamespace(image=store.image, caught_up=here, reached=here)
    clock = SimpleNamespace(monotonic_ms=lambda: 0.0, now_ms=lambda: 1_793_836_800_000)
    made = BudgetOffice(
        cast(Any, view),
        cast(Any, writer),
        cast(Any, clock),
        1_000,
        seated=lambda: True,
        confident=lambda: True,
    )
    return writer, made


def asks(writer: Writer, **changes: Any) -> BudgetRequest:
    image = writer.store.image
    values: dict[str, Any] = {
        "holder": BrokerId(1),
        "registration": image.epoch_of(1),
        "epoch": image.controller_epoch,
        "sequence": 1,
        "wants": {KEY: WANT},
    }
    return BudgetRequest(**{**values, **changes})


def granted(writer: Writer) -> int:
    use = writer.store.image.budget_use_of(KEY)
    return 0 if use is None else use.granted


def test_what_is_granted_is_in_the_record_before_the_answer() -> None:
    writer, made = office()
    answer = asyncio.run(made.asked(asks(writer)))
    assert answer is not None and answer.granted[KEY].total == granted(writer) == 100


@pytest.mark.parametrize("fails", [True, OutcomeUnknown, StoreUnavailable])
def test_nothing_is_granted_that_may_not_be_written_and_the_next_books_begin_with_the_record(
    fails: Any,
) -> None:
    writer, made = office()
    first = asyncio.run(made.asked(asks(writer)))
    again = asyncio.run(made.asked(asks(writer, sequence=2)))
    assert first is not None and again == first and granted(writer) == 100, (
        "an answer that was lost costs nothing"
    )
    writer.fails.append(fails)
    more = {KEY: replace(WANT, wants=300)}
    assert asyncio.run(made.asked(asks(writer, sequence=3, wants=more))) is None
    assert granted(writer) == 100
    later = asyncio.run(made.asked(asks(writer, sequence=4, wants=more)))
    assert later is not None and later.term != first.term and later.granted[KEY].total == 300
    assert granted(writer) == 400, "what the first books granted stays granted"


def test_requests_for_another_controller_or_of_another_registration_get_nothing() -> None:
    writer, made = office()
    for wrong in ({"epoch": 999}, {"registration": 999}, {"holder": BrokerId(9)}):
        assert asyncio.run(made.asked(asks(writer, **wrong))) is None, wrong
    assert granted(writer) == 0


def test_a_budget_that_does_not_exist_is_said_so_and_writes_nothing() -> None:
    writer, made = office()
    gone = BudgetKey(ACME, "bud_gone")
    answer = asyncio.run(made.asked(asks(writer, wants={gone: WANT})))
    assert answer is not None and answer.granted[gone].began_ms == 0
    assert not writer.store.image.budget_use


def test_frames_say_what_was_meant_and_too_long_ones_are_refused() -> None:
    writer, _ = office()
    request = asks(writer)
    assert read_request(request_frame(request)) == request
    answer = BudgetAnswer(term=7, granted={KEY: Granted(began_ms=1, ends_ms=2, total=3)})
    assert read_answer(answer_frame(request, answer), request) == answer
    assert read_answer(answer_frame(request, None), request) is None
    assert read_answer(answer_frame(asks(writer, sequence=2), answer), request) is None
    many = {BudgetKey(ACME, f"b{number}"): WANT for number in range(ENTRIES_MAX + 1)}
    with pytest.raises(FrameError, match="at most 100 allowed"):
        read_request(request_frame(asks(writer, wants=many)))
    with pytest.raises(FrameError, match="has no place"):
        read_request(answer_frame(request, None))

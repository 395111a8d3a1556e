"""The comparison with Stripe: what it reads, that it goes on where it ended, and that what is under way is no alarm."""

from datetime import timedelta

import pytest
from django.utils import timezone

from billing.models import Invoice
from demo.fake_stripe import FakeStripe
from payments import reconciling, stripe_adapter, tasks
from payments.models import Payment, Receivable, ReconciliationReport, ReconciliationRun
from payments.stripe_adapter import Gateway
from penstock.contract.errors import OutcomeUnknown
from tests.control_plane.billing.world import World
from tests.control_plane.payments.paying import (
    CENT,
    DAY,
    again,
    asked,
    deliver,
    differences,
    of_amount,
    worker,
)


def gateway() -> Gateway:
    found = stripe_adapter.configured()
    assert found is not None
    return found


def older(days: int) -> None:
    """Everything here was made and closed so many days before, and the last report is of yesterday."""
    for row in Receivable.objects.all():
        closed = None if row.closed_at is None else row.closed_at - days * DAY
        Receivable.objects.filter(pk=row.pk).update(created_at=row.created_at - days * DAY, closed_at=closed)
    for report in ReconciliationReport.objects.all():
        ReconciliationReport.objects.filter(pk=report.pk).update(at=report.at - DAY)


def nightly() -> list[str]:
    """The worker's comparison, with its deliveries between the steps. Kinds of what it names."""
    for _ in range(5):
        report = reconciling.go_on(gateway(), timezone.now())
        if report is not None:
            return [one["kind"] for one in report.differences]
        deliver()
    raise AssertionError("the comparison does not end")


@pytest.fixture
def invoice(world: World, fake: FakeStripe) -> Invoice:
    made = of_amount(world.tenant("acme"), 2_000 * CENT)
    worker()
    return made


def test_what_is_closed_and_was_compared_is_not_read_again(fake: FakeStripe, invoice: Invoice) -> None:
    fake.pay_on_page(asked(invoice).stripe_invoice)
    again(invoice)
    other = of_amount(invoice.tenant, 500 * CENT)
    worker()
    assert nightly() == []
    assert ReconciliationReport.objects.get().compared == 2
    older(3)
    for one in fake.all("invoice"):
        one["created"] -= 3 * 86_400
    assert nightly() == []
    report = ReconciliationReport.objects.order_by("-pk")[0]
    assert report.compared == 1, "the open one"
    assert asked(other).compared_at > asked(invoice).compared_at  # type: ignore[operator]


def test_what_changed_at_stripe_without_an_event_is_followed_and_no_alarm(
    fake: FakeStripe, invoice: Invoice
) -> None:
    fake.pay_on_page(asked(invoice).stripe_invoice)
    assert nightly() == []
    assert asked(invoice).state == "paid"
    fake.refund_by_hand(asked(invoice).stripe_invoice, 100)
    older(40)
    for one in fake.all("invoice"):
        one["created"] -= 40 * 86_400
    assert nightly() == ["problem"], "a refund by hand is for an operator to decide"
    assert asked(invoice).refunded_micro == 100 * CENT


def test_an_operators_comparison_names_a_refund_that_is_not_counted(
    fake: FakeStripe, invoice: Invoice
) -> None:
    fake.pay_on_page(asked(invoice).stripe_invoice)
    again(invoice)
    refund = fake.refund_by_hand(asked(invoice).stripe_invoice, 100)
    (found,) = differences()
    assert (found["kind"], found["theirs"]) == ("refund", f"{refund['id']}: 100")
    dispute = fake.dispute(asked(invoice).stripe_invoice)
    assert {one["kind"] for one in differences()} == {"refund", "dispute"}
    again(invoice)
    assert {one["kind"] for one in differences()} == {"problem"}
    dispute["status"] = "won"
    assert {one["kind"] for one in differences()} == {"problem", "dispute"}


def test_what_waits_for_its_turn_is_no_difference(fake: FakeStripe, invoice: Invoice) -> None:
    from payments import actions
    from tests.control_plane.billing.world import TESTER

    actions.mark_paid(TESTER, invoice, reference="bank 1")
    assert differences() == []
    assert ReconciliationReport.objects.order_by("-pk")[0].unsent == 1
    deliver()
    assert differences() == []


def test_an_answer_that_does_not_come_keeps_the_progress(
    world: World, fake: FakeStripe, invoice: Invoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        of_amount(invoice.tenant, 1_000 * CENT)
    worker()
    monkeypatch.setattr(stripe_adapter, "PAGE", 2)
    pages, ask = [], Gateway.invoices

    def lost_at_the_second(self: Gateway, **asked_for: object) -> object:
        pages.append(asked_for)
        if len(pages) == 2:
            raise OutcomeUnknown("Stripe: no answer")
        return ask(self, **asked_for)  # type: ignore[arg-type]

    monkeypatch.setattr(Gateway, "invoices", lost_at_the_second)
    tasks.reconcile()
    run = ReconciliationRun.objects.get()
    assert (run.phase, bool(run.after), run.compared) == ("open", True, 2)
    assert not ReconciliationReport.objects.exists()
    tasks.reconcile()
    assert pages[2] == pages[1], "it goes on at the page that was lost"
    assert ReconciliationReport.objects.get().compared == 4
    assert not ReconciliationRun.objects.exists()
    tasks.reconcile()
    assert ReconciliationReport.objects.count() == 1, "once a day"


def test_a_step_is_bounded_and_the_next_one_goes_on(fake: FakeStripe, invoice: Invoice) -> None:
    steps = 0
    while reconciling.go_on(gateway(), timezone.now(), seconds=1e-9) is None:
        steps += 1
        assert steps < 20
    assert ReconciliationReport.objects.get().differences == []
    assert steps >= len(reconciling.PHASES) - 1


def test_a_suspect_whose_delivery_is_refused_is_named(fake: FakeStripe, invoice: Invoice) -> None:
    fake.pay_on_page(asked(invoice).stripe_invoice)
    fake.refuses = "/invoice_payments"
    assert set(nightly()) == {"state", "problem"}
    fake.refuses = ""
    deliver()
    assert nightly() == []


def test_a_suspect_that_is_under_way_for_an_hour_holds_no_report_back(
    fake: FakeStripe, invoice: Invoice
) -> None:
    fake.pay_on_page(asked(invoice).stripe_invoice)
    assert reconciling.go_on(gateway(), timezone.now()) is None
    assert reconciling.go_on(gateway(), timezone.now()) is None
    report = reconciling.go_on(gateway(), timezone.now() + timedelta(hours=2))
    assert report is not None and report.differences == []
    assert report.unsent == 1


def test_a_comparison_that_another_process_has_finished_ends(
    fake: FakeStripe, invoice: Invoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Gateway.given_back

    def finished_meanwhile(self: Gateway, *given: object) -> object:
        ReconciliationRun.objects.all().delete()
        return ask(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Gateway, "given_back", finished_meanwhile)
    assert reconciling.reconcile(gateway(), timezone.now()) is None
    assert not ReconciliationRun.objects.exists() and not ReconciliationReport.objects.exists()


def test_a_refund_that_is_not_ours_is_nothing(fake: FakeStripe, invoice: Invoice) -> None:
    fake.make("re", "refund", payment_intent="pi_of_another_product", amount=1, status="succeeded")
    assert nightly() == []
    assert not Payment.objects.exists()

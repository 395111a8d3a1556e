"""An invoice that was taken back is no charge that a service level credits a part of."""

import dataclasses

from billing import service_level_actions
from payments import actions as payment_actions
from penstock.verification.findings import Verdict
from penstock.verification.service_level_check import check_service_level
from tests.control_plane.billing.test_service_levels import DUE, failing, invoiced, made, seen
from tests.control_plane.billing.world import TESTER, World


def test_an_invoice_that_was_taken_back_counts_nothing_and_a_report_of_before_stays_proven(
    world: World,
) -> None:
    acme = made(world)
    failing(world, acme)
    invoice = invoiced(world, acme)
    payment_actions.open_receivable(invoice)
    before, chain, invoices = seen(acme)
    payment_actions.void(TESTER, invoice, reason="sent to the wrong company")
    (void,) = [
        dataclasses.replace(one, void_at=before["document"]["month"] + "-30T12:00:00Z") for one in invoices
    ]
    stale = check_service_level(before, chain, [void])
    assert any("is void, and counts" in one for one in stale.wrong), "it is not posted, and counts it"
    early = before | {"provisional": False}
    assert check_service_level(early, chain, [void]).wrong == ()
    assert service_level_actions.post_months(DUE) == 1
    shown, chain, invoices = seen(acme)
    assert (shown["document"]["format"], shown["basis_points"], shown["credit_micro"]) == (3, 10_000, 0)
    assert shown["document"]["invoices"][0]["charge_micro"] == invoice.total_micro
    assert shown["posted_at"].startswith("2026-10-03T")
    proof = check_service_level(shown, chain, [void])
    assert (proof.wrong, proof.missing, proof.verdict) == ((), (), Verdict.PROVEN)
    for at, text in (
        (None, "counts as void, and is not"),
        ("2099-01-01T00:00:00Z", "became it after the report"),
    ):
        lie = check_service_level(shown, chain, [dataclasses.replace(void, void_at=at)])
        assert [one for one in lie.wrong if text in one], lie
    assert check_service_level(shown, chain, [dataclasses.replace(void, void_at="soon")]).wrong

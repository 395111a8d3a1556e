"""Time that is taken out of service levels: announced before, bounded by the month, and known to every tenant."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.renderers import JSONRenderer

from billing import exclusion_actions, service_level_actions, service_level_pdf, service_level_reports
from billing.service_level_models import ServiceExclusion
from control_plane.audit import actions as audit_actions
from control_plane.audit import queries as audit
from control_plane.audit.actor import Actor
from control_plane.audit.models import AuditEntry
from control_plane.processes import setbacks
from control_plane.processes.models import Setback
from control_plane.rest.service_levels import ServiceLevelShape
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from tenants.models import Tenant
from tests.control_plane.billing.test_service_levels import (
    DUE,
    END,
    FIRST,
    MONTH,
    NOTICE,
    document,
    excluded,
    failing,
    made,
)
from tests.control_plane.billing.world import TESTER, World


def test_an_exclusion_needs_a_reason_a_notice_and_a_tenant_that_exists(db: None) -> None:
    until = FIRST + timedelta(hours=1)
    end_of_time = datetime.max.replace(tzinfo=UTC)
    for from_at, until_at, changes in (
        (FIRST, until, {"reason": " "}), (FIRST, until, {"reason": "a\nb"}), (FIRST, until, {"reason": "x" * 201}),
        (FIRST, FIRST, {}), (end_of_time, end_of_time, {"now": FIRST}),
        # Nothing that has begun, and nothing that tenants would hear of too late.
        (FIRST, until, {"now": FIRST + timedelta(minutes=30)}), (FIRST, until, {"now": END}),
        (FIRST, until, {"now": FIRST - NOTICE + timedelta(seconds=1)}),
    ):  # fmt: skip
        with pytest.raises(InvalidRequest):
            excluded(None, from_at, until_at, **changes)
    with pytest.raises(NotFound):
        excluded("tn_none", FIRST, until)
    with pytest.raises(NotFound):
        exclusion_actions.withdraw(TESTER, "exc_none", DUE)
    excluded(None, FIRST, until, now=FIRST - NOTICE)


def test_no_more_than_eight_hours_of_a_month_are_taken_out_of_any_tenants(world: World) -> None:
    acme, other = made(world).public_id, made(world, "other").public_id
    hour = timedelta(hours=1)
    excluded(None, FIRST, FIRST + 5 * hour)
    excluded(acme, FIRST + 10 * hour, FIRST + 12 * hour)
    # The same time is taken out once.
    excluded(acme, FIRST + 4 * hour, FIRST + 5 * hour)
    for tenant in (acme, None):
        with pytest.raises(LimitExceeded, match=r"2026-09: 97 windows .* at most 96 \(8 hours\)"):
            excluded(tenant, FIRST + 20 * hour, FIRST + 21 * hour + timedelta(seconds=1))
    excluded(other, FIRST + 20 * hour, FIRST + 21 * hour + timedelta(seconds=1))
    with pytest.raises(LimitExceeded):
        excluded(None, END - hour, END + 9 * hour)
    longest = excluded(None, END, END + 8 * hour)
    with pytest.raises(LimitExceeded, match="2026-10: 97"):
        excluded(None, END + 9 * hour, END + 9 * hour + timedelta(seconds=1))
    exclusion_actions.withdraw(TESTER, longest.public_id, END - hour)
    excluded(None, END + 9 * hour, END + 17 * hour)


def test_every_tenant_reads_in_its_audit_log_and_its_report_what_will_be_excluded(world: World) -> None:
    acme, other = made(world), made(world, "other")
    row = excluded(None, END, END + timedelta(hours=1), "moves the racks")

    def said(tenant: Tenant) -> list[str]:
        entries = audit.entries(tenant.public_id).filter(action__startswith="sla_").order_by("sequence")
        assert all(entry.object_id == row.public_id for entry in entries)
        assert all(entry.after["reason"] == "moves the racks" for entry in entries)
        return [entry.action for entry in entries]

    assert exclusion_actions.tell_tenants(FIRST) == 2 and exclusion_actions.tell_tenants(FIRST) == 0
    assert said(acme) == said(other) == ["sla_exclusion.create"]
    report = service_level_reports.month_report(acme, MONTH, END - timedelta(days=2))
    shown = json.loads(JSONRenderer().render(ServiceLevelShape(report).data))
    (announced,) = shown["announced"]
    assert (announced["id"], announced["reason"]) == (row.public_id, "moves the racks")
    page = service_level_pdf.report_page(acme, report, "Penstock")
    assert "Will be excluded" in page and "moves the racks" in page
    exclusion_actions.withdraw(TESTER, row.public_id, END - timedelta(days=1))
    exclusion_actions.tell_tenants(FIRST)
    assert said(other) == ["sla_exclusion.create", "sla_exclusion.withdraw"]
    assert service_level_reports.month_report(acme, MONTH, END).announced == ()


def told(tenant: Tenant) -> list[str]:
    entries = audit.entries(tenant.public_id).filter(action__startswith="sla_exclusion.")
    return [entry.action for entry in entries.order_by("sequence")]


def test_a_tenant_that_comes_after_the_announcement_reads_it_in_its_audit_log(world: World) -> None:
    acme = made(world)
    row = excluded(None, END, END + timedelta(hours=1), "moves the racks")
    assert exclusion_actions.tell_tenants(FIRST) == 1
    young, late = made(world, "young"), made(world, "late")
    Tenant.objects.filter(pk=young.pk).update(created_at=END - timedelta(days=2))
    Tenant.objects.filter(pk=late.pk).update(created_at=END + timedelta(hours=1))
    assert exclusion_actions.tell_tenants(END - timedelta(days=1)) == 1
    assert told(acme) == told(young) == ["sla_exclusion.create"]
    assert told(late) == [], "it came when the excluded time was over"
    exclusion_actions.withdraw(TESTER, row.public_id, END - timedelta(days=1))
    after = made(world, "after")
    Tenant.objects.filter(pk=after.pk).update(created_at=END - timedelta(hours=1))
    exclusion_actions.tell_tenants(END)
    assert told(young) == ["sla_exclusion.create", "sla_exclusion.withdraw"]
    assert told(after) == [], "it was withdrawn before"


def test_a_tenant_whose_log_takes_no_entry_keeps_no_other_from_hearing_and_hears_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, broken, behind = made(world, "before"), made(world, "broken"), made(world, "behind")
    row = excluded(None, END, END + timedelta(hours=1), "moves the racks")
    record = audit_actions.record

    def failing_record(actor: Actor, *, tenant: str, **entry: Any) -> AuditEntry:
        if tenant == broken.public_id:
            raise RuntimeError("its head is locked")
        return record(actor, tenant=tenant, **entry)

    with monkeypatch.context() as patch:
        patch.setattr(audit_actions, "record", failing_record)
        assert exclusion_actions.tell_tenants(FIRST) == 2
        assert told(before) == told(behind) == ["sla_exclusion.create"]
        exclusion_actions.withdraw(TESTER, row.public_id, END - timedelta(days=1))
        assert exclusion_actions.tell_tenants(FIRST) == 2, "it rests, and the others go on"
        assert setbacks.counts() == {exclusion_actions.ANNOUNCING: 1}
        later = made(world, "later")
        Tenant.objects.filter(pk=later.pk).update(created_at=FIRST)
        assert exclusion_actions.tell_tenants(FIRST) == 1
        Setback.objects.update(retry_at=timezone.now())
        assert exclusion_actions.tell_tenants(FIRST) == 0
    for tenant in (before, behind, later):
        assert told(tenant) == ["sla_exclusion.create", "sla_exclusion.withdraw"]
    assert told(broken) == []
    with pytest.raises(InvalidRequest, match="its audit log does not have exclusion"):
        exclusion_actions.check_announced(broken, END, END + timedelta(days=1))
    exclusion_actions.check_announced(behind, END, END + timedelta(days=1))
    Setback.objects.update(retry_at=timezone.now())
    assert exclusion_actions.tell_tenants(FIRST) == 1 and exclusion_actions.tell_tenants(FIRST) == 0
    assert told(broken) == ["sla_exclusion.create", "sla_exclusion.withdraw"] and setbacks.counts() == {}
    row.refresh_from_db()
    assert row.announced_to == row.withdrawal_announced_to == later.pk, "no log is looked into any more"


def test_no_month_is_posted_whose_exclusion_is_not_in_the_tenants_audit_log(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    world.spark()
    world.bill()
    excluded(None, FIRST, FIRST + timedelta(hours=1), now=FIRST - NOTICE)
    with pytest.raises(InvalidRequest, match="its audit log does not have exclusion"):
        service_level_actions.post_month(acme, FIRST, DUE)
    exclusion_actions.tell_tenants(DUE)
    assert service_level_actions.post_month(acme, FIRST, DUE) is not None


def test_what_was_declared_afterwards_by_an_older_release_excludes_nothing_that_was_past(
    world: World,
) -> None:
    acme = made(world)
    failing(world, acme)
    world.spark()
    world.bill()
    ServiceExclusion.objects.create(
        tenant=None, from_at=FIRST, until_at=END, reason="the whole month", created_at=END - timedelta(days=1)
    )
    ServiceExclusion.objects.create(
        tenant=None,
        from_at=FIRST,
        until_at=FIRST + timedelta(hours=2),
        reason="late",
        created_at=FIRST + timedelta(hours=1),
    )
    (held,) = document(acme).excluded
    assert (held.reason, held.until_s - held.from_s) == ("late", 3_600)

"""Each day's anchors are published once, signed, without names, and hold a bundle's chain to what it was."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from billing import anchor_actions
from billing import metrics as billing_metrics
from billing.anchor_models import AnchorKey, DayAnchor
from billing.models import BillingEntry
from control_plane.api.metrics import registry
from control_plane.audit import queries as audit
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.verification.anchors import DayAnchors, read_anchor
from penstock.verification.history import read_chain
from tenants.models import Tenant
from tests.control_plane.billing.world import Part, World
from tests.control_plane.world import call

PARTS = [Part(first=0, end=1_500, size=2_000_000)]


def billed(world: World, name: str) -> Tenant:
    tenant = world.tenant(name)
    cut = world.cut(tenant, PARTS)
    world.covered(cut, PARTS)
    world.spark()
    world.bill()
    assert world.invoice(cut).status == "issued"
    return tenant


def published(days: int = 1) -> DayAnchor | None:
    """That many days later, after the day has settled."""
    return anchor_actions.publish_due(_morning(days))


def _morning(days: int) -> datetime:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=days) + anchor_actions.SETTLED


def test_a_day_is_published_once_after_it_has_settled_and_holds_each_chains_newest_entry(
    world: World,
) -> None:
    tenants = [billed(world, name) for name in ("acme", "beta")]
    assert anchor_actions.publish_due(_morning(1) - timedelta(seconds=1)) is None, "its day is not settled"
    row = published()
    assert row is not None and published() is None
    found = read_anchor(row.content.encode(), "file", AnchorKey.objects.get().public)
    assert isinstance(found, DayAnchors) and found.day == f"{row.day}" and len(found.leaves) == 2
    for tenant in tenants:
        newest = BillingEntry.objects.filter(tenant=tenant).order_by("-sequence")[0]
        entries = [_entry(one) for one in BillingEntry.objects.filter(tenant=tenant).order_by("sequence")]
        held = read_chain(entries).entries
        found_entry = found.newest(tenant.public_id, held)
        assert found_entry is not None and found_entry.hash == newest.hash
        assert found.newest("tn_other", held) is None, "the tenant is in it"
        assert tenant.public_id not in row.content and newest.hash not in row.content
    (entry,) = [one for one in audit.entries(SYSTEM_TENANT) if one.action == "billing_anchors.publish"]
    assert entry.after["document_sha256"] == row.document_sha256 and entry.after["chains"] == 2


def _entry(row: BillingEntry) -> dict[str, object]:
    document = row.document if row.kind != BillingEntry.Kind.INVOICE else None
    return {
        "sequence": row.sequence, "kind": row.kind, "object_id": row.object_id, "hash": row.hash,
        "document_sha256": row.document_sha256, "at_ms": round(row.at.timestamp() * 1_000), "document": document,
    }  # fmt: skip


def test_days_are_chained_by_one_key_and_no_leaf_is_of_two_days(world: World) -> None:
    billed(world, "acme")
    first, second = published(1), published(3)
    assert first is not None and second is not None and AnchorKey.objects.count() == 1
    one, other = json.loads(first.content), json.loads(second.content)
    assert other["document"]["previous_sha256"] == one["document_sha256"] == first.document_sha256
    assert one["document"]["previous_sha256"] == "0" * 64
    assert not {*one["document"]["leaves"]} & {*other["document"]["leaves"]}
    assert published(2) is None, "no day before a published one"
    third = published(4)
    assert third is not None
    assert json.loads(third.content)["document"]["previous_sha256"] == second.document_sha256
    listed = [one["day"] for one in call("GET", "/v1/anchors").body["days"]]
    assert listed == [f"{row.day}" for row in (third, second, first)], "the newest first"


def test_days_that_are_not_published_are_counted_an_hour_after_they_have_settled(world: World) -> None:
    def overdue(days: int, later: timedelta = anchor_actions.OVERDUE) -> int:
        return anchor_actions.overdue_days(_morning(days) + later)

    assert overdue(9) == 0, "no chain has begun"
    billed(world, "acme")
    assert overdue(1, anchor_actions.OVERDUE - timedelta(seconds=1)) == 0
    assert (overdue(1), overdue(3)) == (1, 3)
    published(3)
    assert (overdue(3), overdue(4), overdue(1)) == (0, 1, 0)
    billing_metrics.refresh()
    assert registry.get_sample_value("penstock_anchor_days_overdue") == 0


def test_the_order_of_leaves_says_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("acme", "beta"):
        billed(world, name)
    made = iter(("b" * 64, "a" * 64))
    monkeypatch.setattr(anchor_actions, "leaf", lambda *of: next(made))
    row = published()
    assert row is not None and json.loads(row.content)["document"]["leaves"] == ["a" * 64, "b" * 64]


def test_nothing_is_published_before_any_chain_begins(db: None) -> None:
    assert published() is None and not DayAnchor.objects.exists()


def test_everyone_reads_them_and_an_altered_one_is_named(world: World) -> None:
    billed(world, "acme")
    row = published()
    assert row is not None
    listed = call("GET", "/v1/anchors")
    assert listed.status == 200
    assert [one["document_sha256"] for one in listed.body["days"]] == [row.document_sha256]
    answer = call("GET", f"/v1/anchors/{row.day}")
    assert answer.status == 200 and "immutable" in answer.headers["Cache-Control"]
    signed = answer.body
    assert isinstance(read_anchor(json.dumps(signed, indent=1).encode(), "file"), DayAnchors)
    for path in ("2020-01-01", "latest", "2026-13-01", "20261127", "a b"):
        assert call("GET", f"/v1/anchors/{path}").status == 404
    other = signed["document"] | {"leaves": ["0" * 64]}
    for altered, text in (
        (signed | {"document": other}, "another hash than it says"),
        (signed | {"document": signed["document"] | {"day": "2026-02-31"}}, "is no day"),
        (signed | {"signature": "0" * 128}, "its signature is not"),
        (signed | {"key": "0" * 64}, "its signature is not"),
        (signed | {"extra": 1}, "is no anchor"),
    ):
        with pytest.raises(InvalidRequest, match=text):
            read_anchor(json.dumps(altered).encode(), "file")
    with pytest.raises(InvalidRequest, match="signed by the key"):
        read_anchor(json.dumps(signed).encode(), "file", "ab" * 32)

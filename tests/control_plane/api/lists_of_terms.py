"""What fills the lists of tenants' terms, of coupons, of the service's costs and of margins."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from billing.cost_models import CostTag
from billing.coupon_models import Coupon
from billing.models import TenantTerms, UsageDay
from billing.service_level_models import ServiceExclusion
from billing.unit_cost_models import CostImport, CostSource, InfrastructureCost
from penstock.contract import documents
from tenants.models import Tenant
from tests.control_plane.world import House

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime.now(UTC) + timedelta(days=5)


def coupons(house: House, said: object, numbers: range) -> None:
    Coupon.objects.bulk_create(
        Coupon(
            code=f"COUPON-{n}", basis_points=100, amount_micro=0, days=31, uses_max=1, reason="test",
            from_at=BEGINNING, until_at=LATER,
        )
        for n in numbers
    )  # fmt: skip


def terms(house: House, said: object, numbers: range) -> None:
    TenantTerms.objects.bulk_create(
        TenantTerms(
            tenant=house.tenant,
            document=documents.plain(documents.NO_TERMS),
            revision=n + 1,
            changed_at=BEGINNING + timedelta(days=n),
        )
        for n in numbers
    )


def infrastructure_costs(house: House, said: object, numbers: range) -> None:
    InfrastructureCost.objects.bulk_create(
        InfrastructureCost(
            name=f"host-{n}", kind="hosts", driver="bytes", amount=1, price_micro=n, per="month", currency="USD",
            from_at=BEGINNING,
        )
        for n in numbers
    )  # fmt: skip


def exclusions(house: House, said: object, numbers: range) -> None:
    ServiceExclusion.objects.bulk_create(
        ServiceExclusion(
            from_at=BEGINNING,
            until_at=BEGINNING + timedelta(hours=n + 1),
            reason="a drill",
            created_at=BEGINNING,
        )
        for n in numbers
    )


def margins(house: House, said: object, numbers: range) -> None:
    """Of tenants that used something in January: none of their periods runs."""
    made = Tenant.objects.bulk_create(Tenant(public_id=f"ten_{n}", name=f"tenant-{n}") for n in numbers)
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=tenant,
            topic_id="0" * 32,
            topic="orders",
            day=date(2026, 1, 2),
            meter="bytes_in",
            quantity=5,
        )
        for tenant in made
    )


def cost_tags(house: House, said: object, numbers: range) -> None:
    CostTag.objects.bulk_create(
        CostTag(tenant=house.tenant, kind="topic", name=f"topic-{n}", key="team", value="web")
        for n in numbers
    )


def cost_imports(house: House, said: object, numbers: range) -> None:
    source, _ = CostSource.objects.get_or_create(name="cloud")
    CostImport.objects.bulk_create(
        CostImport(
            source=source, sha256=f"{n:064x}", months=["2026-01"], rows=1, costs=1, totals={"USD": n}, before=[],
            made_at=BEGINNING,
        )
        for n in numbers
    )  # fmt: skip


def topic_margins(house: House, said: object, numbers: range) -> None:
    tenant, _ = Tenant.objects.get_or_create(public_id="ten_topics", defaults={"name": "tenant-of-topics"})
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=tenant,
            topic_id=f"{n:032x}",
            topic=f"topic-{n:03}",
            day=date(2026, 1, 2),
            meter="bytes_in",
            quantity=5,
        )
        for n in numbers
    )


ASKED: dict[str, tuple[Callable[[House, object, range], None], str]] = {
    "/v1/coupons": (coupons, ""),
    "/v1/billing/costs": (infrastructure_costs, ""),
    "/v1/billing/cost-imports": (cost_imports, ""),
    "/v1/billing/sla-exclusions": (exclusions, ""),
    "/v1/margins": (margins, "period=2026-01"),
    "/v1/margins/topics": (topic_margins, "period=2026-01&tenant=ten_topics"),
}
"""Address -> what fills the list, and how it is asked for."""

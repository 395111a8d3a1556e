"""What fills the lists of tenants' terms and of coupons."""

from datetime import UTC, datetime, timedelta

from billing.coupon_models import Coupon
from billing.models import TenantTerms
from penstock.contract import documents
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

"""What the last invoiced period of every tenant would have cost by another price book: who would pay more, who less.

It is rated by the functions that rate invoices, from their lines: the pipeline has folded usage to a handful of
quantities a tenant, so there is nothing left that Spark would divide, and prices have one implementation.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, OuterRef, Subquery, When
from django.db.models.lookups import Exact

from billing import previews, voids
from billing.models import Invoice
from penstock.rules import rating
from tenants.models import Tenant

TENANTS_MAX = 1_000
"""Those whose last invoice is the greatest: each takes some queries. Amounts of other currencies than the book's cannot
be compared with any, so such tenants come after those that can.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantWhatIf:
    """A tenant's last invoiced period, as it was billed and by the other book."""

    tenant: Tenant
    preview: previews.Preview

    @property
    def difference_micro(self) -> int | None:
        """None: it was billed in another currency."""
        return self.preview.difference_micro


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfOfAll:
    """`tenants` from the one that would pay most more on; those of other currencies last. Sums are of those that can be
    compared.
    """

    book: rating.PriceBook
    tenants: tuple[TenantWhatIf, ...]
    left_out: int
    """Tenants with an invoice beyond `TENANTS_MAX`."""

    @property
    def _compared(self) -> list[previews.Preview]:
        return [one.preview for one in self.tenants if one.difference_micro is not None]

    @property
    def billed_micro(self) -> int:
        return sum(one.billed_micro for one in self._compared)

    @property
    def preview_micro(self) -> int:
        return sum(one.preview_micro for one in self._compared)

    @property
    def difference_micro(self) -> int:
        return self.preview_micro - self.billed_micro

    @property
    def dearer(self) -> int:
        """Tenants that would pay more."""
        return sum((one.difference_micro or 0) > 0 for one in self.tenants)

    @property
    def cheaper(self) -> int:
        return sum((one.difference_micro or 0) < 0 for one in self.tenants)

    @property
    def in_other_currencies(self) -> int:
        return len(self.tenants) - len(self._compared)


def what_if_of_all(book: rating.PriceBook, now: datetime) -> WhatIfOfAll:
    """Each tenant keeps its own terms, and its last invoice that was not taken back counts. Nothing is changed."""
    issued = voids.without_void(Invoice.objects.filter(status=Invoice.Status.ISSUED))
    newest = issued.filter(tenant=OuterRef("pk")).order_by("-cut__period_end")
    tenants = Tenant.objects.annotate(
        last_micro=Subquery(newest.values("total_micro")[:1]),
        apart=Case(
            When(Exact(Subquery(newest.values("price_book__currency")[:1]), book.currency), then=0), default=1
        ),
    ).filter(last_micro__isnull=False)
    chosen = tenants.order_by("apart", "-last_micro", "pk")[:TENANTS_MAX]
    found = [
        TenantWhatIf(tenant=tenant, preview=previews.last_period(tenant, book, now)) for tenant in chosen
    ]
    found.sort(
        key=lambda one: (one.difference_micro is None, -(one.difference_micro or 0), one.tenant.public_id)
    )
    return WhatIfOfAll(book=book, tenants=tuple(found), left_out=max(0, tenants.count() - TENANTS_MAX))

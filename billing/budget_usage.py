"""What a tenant used before a budget of it was made, by the data sets of usage: what brokers did not count."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from django.db.models import QuerySet, Sum

from billing.cost_models import PrincipalDay
from billing.models import UsageDay
from tenants.models import ApiKey, ServiceAccount, Tenant


def used_since(tenant: Tenant, first: date, topic: str, account: ServiceAccount | None) -> Mapping[str, int]:
    """By meter, from the beginning of that day on, of that topic (empty: all) and service account (None: all keys). As
    far as rounds of the usage pipeline have brought it: what came in the last minute or so may be missing.
    """
    rows: QuerySet[Any] = UsageDay.objects.filter(tenant=tenant, day__gte=first)
    if account is not None:
        numbers = ApiKey.objects.filter(tenant=tenant, service_account=account).exclude(principal_number=None)
        rows = PrincipalDay.objects.filter(
            tenant=tenant, day__gte=first, principal__in=numbers.values("principal_number")
        )
    if topic:
        rows = rows.filter(topic=topic)
    return dict(rows.values_list("meter").annotate(total=Sum("quantity")).order_by("meter"))

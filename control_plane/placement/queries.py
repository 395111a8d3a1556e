"""Reads orders, plans, moves, cells and loads. They belong to the service, not to a tenant: for operators and the
service itself.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from control_plane.brokers.view import BrokerLoadSeen, BrokerSeen, PartitionLoadSeen
from control_plane.placement.models import (
    OPEN,
    Balancer,
    BrokerOrder,
    BrokerUse,
    Cell,
    CellTenant,
    LoadReport,
    Move,
    PlacementPlan,
    PlanState,
)
from penstock.contract.errors import NotFound

REPORT_LASTS = timedelta(seconds=90)
"""An older report says nothing any more."""


def order_of(broker: int) -> BrokerOrder | None:
    return BrokerOrder.objects.filter(broker=broker).first()


def order_by_id(public_id: str) -> BrokerOrder:
    return BrokerOrder.objects.get(public_id=public_id)


def drains() -> QuerySet[BrokerOrder]:
    """Brokers that operators want empty, in order."""
    return BrokerOrder.objects.filter(use=BrokerUse.DRAIN).order_by("broker")


def orders() -> dict[int, BrokerOrder]:
    """By broker."""
    return {order.broker: order for order in BrokerOrder.objects.all()}


def move_by_id(public_id: str) -> Move:
    return Move.objects.get(public_id=public_id)


def open_moves() -> QuerySet[Move]:
    """Those that wait or are under way, oldest first."""
    return Move.objects.filter(state__in=OPEN).order_by("pk")


def moves() -> QuerySet[Move]:
    """All there ever were."""
    return Move.objects.all()


def move(public_id: str) -> Move:
    """Raises `NotFound`."""
    found = Move.objects.filter(public_id=public_id).first()
    if found is None:
        raise NotFound(f"move {public_id[:64]!r} does not exist")
    return found


# -- plans ------------------------------------------------------------------------------------------------


def plans() -> QuerySet[PlacementPlan]:
    return PlacementPlan.objects.all()


def plan(public_id: str) -> PlacementPlan:
    """Raises `NotFound`."""
    found = PlacementPlan.objects.filter(public_id=public_id).first()
    if found is None:
        raise NotFound(f"placement plan {public_id[:64]!r} does not exist")
    return found


def running_plans() -> QuerySet[PlacementPlan]:
    return PlacementPlan.objects.filter(state=PlanState.RUNNING).order_by("pk")


def moves_of(plans: Iterable[PlacementPlan]) -> dict[str, dict[str, int]]:
    """Numbers of moves by plan and state."""
    found: dict[str, dict[str, int]] = {}
    rows = Move.objects.filter(plan__in=[plan.public_id for plan in plans]).values_list("plan", "state")
    for plan, state, number in rows.annotate(number=Count("pk")):
        found.setdefault(plan, {})[state] = number
    return found


def open_by_state() -> dict[str, tuple[int, int]]:
    """Number of moves and bytes to copy, of those that wait and of those under way."""
    rows = Move.objects.filter(state__in=OPEN).values_list("state")
    return {
        state: (number, size or 0)
        for state, number, size in rows.annotate(number=Count("pk"), size=Sum("copied_bytes"))
    }


# -- cells ------------------------------------------------------------------------------------------------


def cells() -> QuerySet[Cell]:
    return Cell.objects.all()


def cell(name: str) -> Cell:
    """Raises `NotFound`."""
    found = Cell.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"cell {name[:64]!r} does not exist")
    return found


def tenants_by_cell() -> dict[str, int]:
    """Numbers of tenants by the name of their cell; a cell without tenants is not in it."""
    rows = CellTenant.objects.filter(cell__isnull=False).values_list("cell__name")
    return dict(rows.annotate(number=Count("pk")))


def cell_of(tenant: str) -> CellTenant | None:
    return CellTenant.objects.filter(tenant=tenant).select_related("cell").first()


def brokers_of(cell: Cell, brokers: Iterable[BrokerSeen]) -> tuple[int, ...]:
    """Ids of its brokers that the cluster knows, in order."""
    return tuple(sorted(b.id for b in brokers if b.id in cell.brokers or (b.host and b.host in cell.hosts)))


def cells_of_tenants(brokers: Iterable[BrokerSeen]) -> dict[str, tuple[int, ...]]:
    """The brokers of each tenant that has a cell, by its public id."""
    seen = list(brokers)
    members = {cell.pk: brokers_of(cell, seen) for cell in Cell.objects.all()}
    if not members:
        return {}
    rows = CellTenant.objects.filter(cell__isnull=False).values_list("tenant", "cell")
    return {tenant: members[cell] for tenant, cell in rows}


# -- loads and the balancer -------------------------------------------------------------------------------


def loads() -> dict[int, BrokerLoadSeen]:
    """What brokers said lately, by broker, with the partitions that they named."""
    rows = LoadReport.objects.filter(seen_at__gt=timezone.now() - REPORT_LASTS)
    return {row.broker: _load(row.broker, row.sums, row.partitions) for row in rows}


def load_sums() -> dict[int, BrokerLoadSeen]:
    """The same without partitions, which are long."""
    rows = LoadReport.objects.filter(seen_at__gt=timezone.now() - REPORT_LASTS)
    return {broker: _load(broker, sums, []) for broker, sums in rows.values_list("broker", "sums")}


def _load(broker: int, sums: dict[str, int], partitions: list[list[object]]) -> BrokerLoadSeen:
    names = (
        "topic_id",
        "partition",
        "leads",
        "log_bytes",
        "bytes_in_per_s",
        "bytes_out_per_s",
        "batches_per_s",
        "slow_downs_per_s",
        "hot_key_percent",
    )
    # A report of a release before is shorter; it is replaced within seconds.
    named = (dict(zip(names, values, strict=False)) for values in partitions)
    return BrokerLoadSeen(
        broker=broker,
        partitions=tuple(PartitionLoadSeen(**one) for one in named),  # type: ignore[arg-type]
        **sums,
    )


def balancer() -> Balancer:
    """The row, or what holds without one."""
    return Balancer.objects.first() or Balancer(public_id="balancer", generation=0)

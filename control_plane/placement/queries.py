"""Reads orders and moves. They belong to the service, not to a tenant: for operators and the service itself."""

from django.db.models import QuerySet

from control_plane.placement.models import OPEN, BrokerOrder, BrokerUse, Move


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

"""Writes cells, and which tenant is in which: by an operator, or by a draw of two for a tenant without topics."""

from collections.abc import Sequence

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from control_plane.brokers.view import BrokerSeen
from control_plane.ids import new_id
from control_plane.placement import queries
from control_plane.placement.models import Cell, CellTenant
from control_plane.topics.models import Topic
from data_plane.placement.pressure import less_of_two
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT

CELLS_MAX = 1_000


def create(
    actor: Actor, name: str, brokers: Sequence[int], hosts: Sequence[str], seen: Sequence[BrokerSeen]
) -> Cell:
    """A new cell of brokers that are known. Raises `AlreadyExists`, `InvalidRequest` (a broker is in another cell)."""
    with transaction.atomic():
        if Cell.objects.select_for_update(no_key=True).filter(name=name).exists():
            raise AlreadyExists(f"cell {name!r} exists")
        if Cell.objects.count() >= CELLS_MAX:
            raise InvalidRequest(f"cells: {CELLS_MAX} are the most there may be")
        made = Cell(
            public_id=new_id("cel"), name=name, brokers=sorted(set(brokers)), hosts=sorted(set(hosts))
        )
        _check(made, seen)
        made.save()
        _audit(actor, made, "cell.create")
    return made


def change(
    actor: Actor, cell: Cell, brokers: Sequence[int], hosts: Sequence[str], seen: Sequence[BrokerSeen]
) -> Cell:
    """Its brokers from now on. What is placed stays until a plan moves it. Raises `InvalidRequest`."""
    with transaction.atomic():
        locked = Cell.objects.select_for_update(no_key=True).get(pk=cell.pk)
        locked.brokers, locked.hosts = sorted(set(brokers)), sorted(set(hosts))
        _check(locked, seen)
        locked.generation += 1
        locked.save()
        _audit(actor, locked, "cell.change")
    return locked


def delete(actor: Actor, cell: Cell) -> None:
    """Raises `InvalidRequest` while a tenant is in it."""
    with transaction.atomic():
        locked = Cell.objects.select_for_update(no_key=True).get(pk=cell.pk)
        first = locked.tenants.order_by("pk").first()
        if first is not None:
            raise InvalidRequest(
                f"cell {locked.name!r}: tenant {first.tenant} is in it; move it to another cell first"
            )
        _audit(actor, locked, "cell.delete")
        locked.delete()


def assign(tenant: str, cell: Cell | None) -> None:
    """Within the caller's transaction, which has the audit entry. None: it may be anywhere."""
    CellTenant.objects.update_or_create(tenant=tenant, defaults={"cell": cell})


def forget(tenant: str) -> None:
    """For a tenant that is purged: else its cell could not be deleted any more."""
    CellTenant.objects.filter(tenant=tenant).delete()


def brokers_for(tenant: str, seen: Sequence[BrokerSeen]) -> tuple[int, ...] | None:
    """Where topics of this tenant may be placed; None = on every broker.

    A tenant that has no topic on brokers yet is given a cell now, if there are any: of two that its id draws, the one
    with fewer tenants. One that has topics stays as it is until an operator moves it; so does the service itself.
    """
    if tenant == SYSTEM_TENANT or not Cell.objects.exists():
        return None
    known = queries.cell_of(tenant)
    if known is None:
        if Topic.objects.filter(tenant__public_id=tenant, on_brokers=True).exists():
            return None
        known = _drawn(tenant)
    return None if known.cell is None else queries.brokers_of(known.cell, seen)


def _drawn(tenant: str) -> CellTenant:
    with transaction.atomic():
        cells = {cell.pk: cell for cell in Cell.objects.order_by("pk")}
        by_name = queries.tenants_by_cell()
        counts = {pk: by_name.get(cell.name, 0) for pk, cell in cells.items()}
        chosen = cells[less_of_two(list(cells), counts, tenant.encode(), 0)]
        row, made = CellTenant.objects.get_or_create(tenant=tenant, defaults={"cell": chosen})
        if made:
            audit.record(
                system("placement"),
                tenant=SYSTEM_TENANT,
                action="cell.assign",
                object_id=chosen.public_id,
                after={"tenant": tenant, "cell": chosen.name},
            )
    return row


def _check(cell: Cell, seen: Sequence[BrokerSeen]) -> None:
    known = {broker.id for broker in seen}
    for number in cell.brokers:
        if number not in known:
            raise InvalidRequest(f"brokers: broker {number} is not known")
    for host in cell.hosts:
        if all(broker.host != host for broker in seen):
            raise InvalidRequest(f"hosts: no broker says that it is on host {host!r}")
    mine = queries.brokers_of(cell, seen)
    if not mine:
        raise InvalidRequest("brokers: a cell has at least one broker; name brokers or hosts")
    for other in Cell.objects.exclude(pk=cell.pk):
        both = [number for number in queries.brokers_of(other, seen) if number in mine]
        if both:
            raise InvalidRequest(f"brokers: broker {both[0]} is in cell {other.name!r}")


def _audit(actor: Actor, cell: Cell, action: str) -> None:
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=action,
        object_id=cell.public_id,
        after={"name": cell.name, "brokers": cell.brokers, "hosts": cell.hosts},
    )

"""The table of planted bugs."""

from tests.simulation.bug import PlantedBug
from tests.simulation.planted_bugs import (
    care,
    clients,
    elections,
    files,
    groups,
    identity,
    in_sync,
    losses,
    moves,
    nearest,
    orders,
    producing,
    retention,
    stores,
    storing,
    truncation,
    working,
)

BUGS: tuple[PlantedBug, ...] = (
    *identity.BUGS,
    *in_sync.BUGS,
    *truncation.BUGS,
    *elections.BUGS,
    *losses.BUGS,
    *moves.BUGS,
    *orders.BUGS,
    *producing.BUGS,
    *clients.BUGS,
    *nearest.BUGS,
    *groups.BUGS,
    *retention.BUGS,
    *storing.BUGS,
    *stores.BUGS,
    *files.BUGS,
    *care.BUGS,
    *working.BUGS,
)

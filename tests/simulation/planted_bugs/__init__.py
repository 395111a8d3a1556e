"""The table of planted bugs."""

from tests.simulation.bug import PlantedBug
from tests.simulation.planted_bugs import (
    clients,
    elections,
    files,
    groups,
    identity,
    in_sync,
    moves,
    producing,
    retention,
    storing,
    truncation,
    working,
)

BUGS: tuple[PlantedBug, ...] = (
    *identity.BUGS,
    *in_sync.BUGS,
    *truncation.BUGS,
    *elections.BUGS,
    *moves.BUGS,
    *producing.BUGS,
    *clients.BUGS,
    *groups.BUGS,
    *retention.BUGS,
    *storing.BUGS,
    *files.BUGS,
    *working.BUGS,
)

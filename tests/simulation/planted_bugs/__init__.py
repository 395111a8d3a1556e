"""Every planted bug, by the part of the product that it spoils."""

from tests.simulation.planted_bugs import (
    committing,
    elections,
    followers,
    logs,
    producing,
    reading,
    registrations,
)
from tests.simulation.planting import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    *committing.BUGS,
    *followers.BUGS,
    *elections.BUGS,
    *registrations.BUGS,
    *logs.BUGS,
    *producing.BUGS,
    *reading.BUGS,
)

"""The table of planted bugs."""

from tests.simulation.bug import PlantedBug
from tests.simulation.planted_bugs import elections, in_sync, storing, truncation, working

BUGS: tuple[PlantedBug, ...] = (
    *in_sync.BUGS,
    *truncation.BUGS,
    *elections.BUGS,
    *storing.BUGS,
    *working.BUGS,
)

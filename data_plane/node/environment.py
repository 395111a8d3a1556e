"""What the shell gives the node, and what every wing needs: configuration, ports and counters."""

from dataclasses import dataclass

from data_plane.disk.port import Disk
from data_plane.node.config import NodeConfig
from data_plane.node.ports import Rng, Transport, WorkClock
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Of one node."""

    config: NodeConfig
    clock: WorkClock
    rng: Rng
    transport: Transport
    disk: Disk
    stats: NodeStats

    def begin_turn(self) -> Turn:
        """A turn of the event loop begins now."""
        return Turn(self.clock, self.rng)

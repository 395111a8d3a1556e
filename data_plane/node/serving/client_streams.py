"""The streams of clients: each is admitted, served in its tenant's turns, and looked at when keys change."""

from collections.abc import Callable

from data_plane.disk.port import Disk
from data_plane.metering.increments import FETCH, PRODUCE
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.gate import Gate
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.metering import Metering
from data_plane.node.ports import Caller, Clock, Connection, Rng
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.host import ReplicaHost
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.node.serving.produce_stream import ProduceStream
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.throttling.pacing import Pacing


class ClientStreams:
    """All produce and consume streams of one broker."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        gate: Gate,
        fairness: Fairness,
        disk: Disk,
        clock: Clock,
        rng: Rng,
        stats: NodeStats,
        host: ReplicaHost,
        committer: Committer,
        metering: Metering,
        *,
        writing: Callable[[], bool],
        reading: Callable[[], bool],
        begin_turn: Callable[[], Turn],
    ) -> None:
        """`writing` and `reading`: may this broker do so by what it knows of the metadata?"""
        self._config, self._gate, self._fairness, self._disk = config, gate, fairness, disk
        self._clock, self._rng, self._stats = clock, rng, stats
        self._host, self._committer, self._metering = host, committer, metering
        self._writing, self._reading, self._begin_turn = writing, reading, begin_turn
        self._pacing = Pacing(view.image, config.broker_id)
        self._consumers: dict[ConsumeStream, None] = {}

    def recheck(self) -> None:
        """Keys or tenants changed."""
        for consumer in self._consumers:
            consumer.recheck()

    async def produce(self, caller: Caller, connection: Connection) -> None:
        principal = self._gate.admit(caller)
        tally = self._metering.tally(principal.tenant, PRODUCE)
        stream = ProduceStream(
            connection,
            principal,
            self._gate,
            self._host.find,
            self._committer,
            self._clock,
            self._rng,
            self._stats,
            lambda: self._host.disk_space.refuses_writes,
            self._writing,
            lambda: self._pacing.of(principal.tenant, self._clock.monotonic_ms()),
            tally,
            self._fairness.of(principal.tenant),
        )
        try:
            await self._gate.during(principal, stream.serve())
        finally:
            self._metering.drop(tally)

    async def consume(self, caller: Caller, connection: Connection) -> None:
        principal = self._gate.admit(caller)
        tally = self._metering.tally(principal.tenant, FETCH)
        stream = ConsumeStream(
            connection,
            principal,
            self._gate,
            self._host.find,
            self._disk,
            self._config,
            self._stats,
            self._reading,
            self._metering,
            tally,
            self._fairness.of(principal.tenant),
            self._begin_turn,
        )
        self._consumers[stream] = None
        try:
            await self._gate.during(principal, stream.serve())
        finally:
            del self._consumers[stream]
            self._metering.drop(tally)

"""The streams of clients: each is admitted, served in its tenant's turns, and looked at when keys change."""

from collections.abc import Callable

from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.metering.client_use import ClientUse
from data_plane.node.ports import Caller, Connection
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.serving.allowance import Allowances
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.node.serving.produce_stream import ProduceStream
from penstock.rules.service_levels import FETCH, PRODUCE


class ClientStreams:
    """All produce and consume streams of one broker."""

    def __init__(
        self,
        environment: Environment,
        *,
        gate: Gate,
        allowances: Allowances,
        replicas: ReplicaSet,
        disk_space: DiskSpace,
        committer: Committer,
        client_use: ClientUse,
        writing: Callable[[], bool],
        reading: Callable[[], bool],
    ) -> None:
        """`writing` and `reading`: may this broker do so by what it knows of the metadata?"""
        self._environment = environment
        self._gate = gate
        self._allowances = allowances
        self._replicas = replicas
        self._disk_space = disk_space
        self._committer = committer
        self._client_use = client_use
        self._writing = writing
        self._reading = reading
        self._consumers: dict[ConsumeStream, None] = {}

    def recheck(self) -> None:
        """Keys or tenants changed."""
        for consumer in self._consumers:
            consumer.recheck()

    async def produce(self, caller: Caller, connection: Connection) -> None:
        principal = self._gate.admit(caller)
        tally = self._client_use.tally(principal.tenant, PRODUCE)
        stream = ProduceStream(
            self._environment,
            connection,
            principal,
            gate=self._gate,
            find=self._replicas.find,
            committer=self._committer,
            refuses_writes=lambda: self._disk_space.refuses_writes,
            confident=self._writing,
            allowance=self._allowances.to_produce(principal),
            tally=tally,
        )
        try:
            await self._gate.during(principal, stream.serve())
        finally:
            self._client_use.drop(tally)

    async def consume(self, caller: Caller, connection: Connection) -> None:
        principal = self._gate.admit(caller)
        tally = self._client_use.tally(principal.tenant, FETCH)
        stream = ConsumeStream(
            self._environment,
            connection,
            principal,
            gate=self._gate,
            find=self._replicas.find,
            confident=self._reading,
            allowance=self._allowances.to_consume(principal),
            client_use=self._client_use,
            tally=tally,
        )
        self._consumers[stream] = None
        try:
            await self._gate.during(principal, stream.serve())
        finally:
            del self._consumers[stream]
            self._client_use.drop(tally)

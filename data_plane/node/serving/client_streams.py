"""The streams of clients: each is admitted, served in its tenant's turns, and looked at when keys change."""

from collections.abc import Callable
from functools import partial

from data_plane.leases.terms import LimitKey
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.leasing.key_budgets import KeyBudgets
from data_plane.node.leasing.pacing import CONSUME_RATE, PRODUCE_RATE
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.metering import Metering
from data_plane.node.ports import Caller, Connection
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.serving.consume_stream import ConsumeStream
from data_plane.node.serving.produce_stream import ProduceStream
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.throttling.pacing import Pace
from penstock.contract.ids import TenantId
from penstock.rules.service_levels import FETCH, PRODUCE


class ClientStreams:
    """All produce and consume streams of one broker."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        gate: Gate,
        fairness: Fairness,
        pace: Callable[[LimitKey], Pace | None],
        own_pace: Callable[[TenantId, str, str], Pace | None],
        topic_paces: Callable[[TenantId, str, str, str], list[Pace]],
        requests: RequestTurns,
        storage_refusal: Callable[[TenantId], str],
        budgets: Callable[[TenantId, str], KeyBudgets],
        replicas: ReplicaSet,
        disk_space: DiskSpace,
        committer: Committer,
        metering: Metering,
        writing: Callable[[], bool],
        reading: Callable[[], bool],
    ) -> None:
        """`pace`: of a limit now. `own_pace`: of the limit of that name which the principal of a tenant's key has to
        itself, None = it has none. `topic_paces`: those by which budgets slow a topic for the key, by the limit's name.
        `storage_refusal`: why a tenant may store no more, empty if it may. `budgets`: as
        they concern a key of the tenant.
        `writing` and `reading`: may this broker do so by what it knows of the metadata?"""
        self._config, self._disk, self._clock = environment.config, environment.disk, environment.clock
        self._rng, self._stats, self._begin_turn = environment.rng, environment.stats, environment.begin_turn
        self._gate, self._fairness = gate, fairness
        self._replicas, self._disk_space = replicas, disk_space
        self._committer, self._metering = committer, metering
        self._writing, self._reading = writing, reading
        self._pace, self._requests, self._storage_refusal = pace, requests, storage_refusal
        self._own_pace, self._topic_paces, self._budgets = own_pace, topic_paces, budgets
        self._consumers: dict[ConsumeStream, None] = {}

    def recheck(self) -> None:
        """Keys or tenants changed."""
        for consumer in self._consumers:
            consumer.recheck()

    async def produce(self, caller: Caller, connection: Connection) -> None:
        principal = self._gate.admit(caller)
        tally = self._metering.tally(principal.tenant, PRODUCE)
        limit = LimitKey(principal.tenant, PRODUCE_RATE)
        stream = ProduceStream(
            connection,
            principal,
            self._gate,
            self._replicas.find,
            self._committer,
            self._clock,
            self._rng,
            self._stats,
            refuses_writes=lambda: self._disk_space.refuses_writes,
            confident=self._writing,
            pace=lambda: self._pace(limit),
            own_pace=lambda: self._own_pace(principal.tenant, principal.key_id, PRODUCE_RATE),
            topic_paces=partial(self._topic_paces, principal.tenant, principal.key_id, PRODUCE_RATE),
            requests=self._requests.of(principal.tenant, principal.key_id, principal.number),
            storage_refusal=lambda: self._storage_refusal(principal.tenant),
            budgets=self._budgets(principal.tenant, principal.key_id),
            tally=tally,
            throttled=partial(self._metering.throttled, principal.tenant, principal.number),
            turns=self._fairness.of(principal.tenant),
        )
        try:
            await self._gate.during(principal, stream.serve())
        finally:
            self._metering.drop(tally)

    async def consume(self, caller: Caller, connection: Connection) -> None:
        principal = self._gate.admit(caller)
        tally = self._metering.tally(principal.tenant, FETCH)
        limit = LimitKey(principal.tenant, CONSUME_RATE)
        stream = ConsumeStream(
            connection,
            principal,
            self._gate,
            self._replicas.find,
            self._disk,
            self._config,
            self._clock,
            self._stats,
            confident=self._reading,
            pace=lambda: self._pace(limit),
            own_pace=lambda: self._own_pace(principal.tenant, principal.key_id, CONSUME_RATE),
            topic_paces=partial(self._topic_paces, principal.tenant, principal.key_id, CONSUME_RATE),
            requests=self._requests.of(principal.tenant, principal.key_id, principal.number),
            metering=self._metering,
            budgets=self._budgets(principal.tenant, principal.key_id),
            tally=tally,
            turns=self._fairness.of(principal.tenant),
            begin_turn=self._begin_turn,
        )
        self._consumers[stream] = None
        try:
            await self._gate.during(principal, stream.serve())
        finally:
            del self._consumers[stream]
            self._metering.drop(tally)

"""Damage in replicas: given up where others count on it, cut out and fetched again, or accepted as a loss (RL122)."""

import asyncio

from data_plane.controller.elections import strip_replica
from data_plane.log import layout
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import MetaStore, OutcomeUnknown, Put, StoreUnavailable
from data_plane.node.environment import Environment
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.node.replicas.assignment import Assignment
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.distrust import Distrust
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.leader_links import LeaderLinks
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from penstock.contract.ids import TopicPartition


class Repair:
    """A replica that is whole again gets its role."""

    def __init__(
        self,
        environment: Environment,
        *,
        image: ClusterImage,
        store: MetaStore,
        replicas: ReplicaSet,
        due: DueWork,
        distrust: Distrust,
        committer: Committer,
        quarantine: Quarantine,
        links: LeaderLinks,
        assignment: Assignment,
    ) -> None:
        self._config, self._clock = environment.config, environment.clock
        self._image, self._store, self._replicas = image, store, replicas
        self._due, self._distrust, self._committer = due, distrust, committer
        self._quarantine, self._links, self._assignment = quarantine, links, assignment

    def stopped(self, replica: Replica) -> None:
        """It takes no part any more, and its leader is told, so that it is not taken for even. One that found damage in
        itself gives up what it is trusted with (RL122)."""
        self._links.leave_all(replica)
        if replica.where in self._replicas.by_partition:
            self._distrust.damaged[replica.where] = replica.broken
            self._due.give_up(replica.where)

    async def do_due(self) -> None:
        """All that is due now."""
        for where in list(self._due.to_give_up):
            del self._due.to_give_up[where]
            await self._give_up(where)
        for where in list(self._due.to_repair):
            del self._due.to_repair[where]
            replica = self._replicas.find(where)
            if replica is not None:
                await self._repair(replica)
        for where in list(self._due.to_accept):
            del self._due.to_accept[where]
            replica = self._replicas.find(where)
            if replica is not None:
                await self._accept(replica)

    async def _give_up(self, where: TopicPartition) -> None:
        write = strip_replica(self._image, self._config.broker_id, where)
        if write is None:
            return
        try:
            result = await self._store.txn(write.compares, [Put(write.key, write.value)])
        except (StoreUnavailable, OutcomeUnknown):
            result = None
        if result is None or not result.succeeded:
            await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
            self._due.give_up(where)

    async def _repair(self, replica: Replica) -> None:
        """Cut the log where the damaged segment begins, which is kept beside it, and fetch the rest from the leader,
        verified as any fetch is.

        Where the journal or checkpoint was damaged nobody can tell where that is: everything is fetched again.
        """
        log, damage = replica.log, replica.log.damage
        unknown = replica.where in self._distrust.unknown_loss
        if replica.busy or not (damage or unknown):
            return
        replica.repairs += 1
        cut = log.log_start_offset if unknown else log.scrub.refetch_from()
        if cut < log.log_start_offset:
            await self._committer.start_over(replica, cut, log.state_at_start())
        else:
            await self._committer.truncate(replica, cut, declared=True)
        self._set_aside_in(replica)
        self._distrust.is_whole(replica.where)
        replica.broken = ""
        self._assignment.give_role(replica)

    async def _accept(self, replica: Replica) -> None:
        """Cut the log where the new generation begins, and lead it."""
        record = self._image.partition(replica.where)
        if replica.busy or record is None or not self._assignment.given_as_it_is(replica, record):
            return
        if replica.log.damage:
            replica.repairs += 1
            await self._committer.truncate(replica, replica.sound_end_offset, declared=True)
            self._set_aside_in(replica)
        self._distrust.is_whole(replica.where)
        replica.broken = replica.writes_stopped = replica.note = ""
        self._assignment.give_role(replica)

    def _set_aside_in(self, replica: Replica) -> None:
        """What was cut of it may be kept beside it."""
        self._quarantine.look_in(layout.partition_directory(replica.where), self._clock.now_ms())

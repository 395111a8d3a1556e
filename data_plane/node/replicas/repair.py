"""Damage in replicas: given up where others count on it, truncated and fetched again, or accepted as a loss (RL122)."""

import asyncio

from data_plane.controller.elections import strip_replica
from data_plane.log import layout
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import MetaStore, OutcomeUnknown, Put, StoreUnavailable
from data_plane.node.environment import Environment
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.node.replicas.assignment import Assignment
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.leader_links import LeaderLinks
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.replication.health import LostTail, Remedy


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
        committer: Committer,
        quarantine: Quarantine,
        links: LeaderLinks,
        assignment: Assignment,
    ) -> None:
        self._config = environment.config
        self._clock = environment.clock
        self._image = image
        self._store = store
        self._replicas = replicas
        self._due = due
        self._committer = committer
        self._quarantine = quarantine
        self._links = links
        self._assignment = assignment

    def stopped(self, replica: Replica) -> None:
        """It takes no part any more, and its leader is notified, so that it does not count as caught up. One that found
        damage in itself leaves the sets of those that may lead (RL122)."""
        self._links.leave_all(replica)
        if self._replicas.has(replica):
            self._due.heal(replica.where)

    async def heal_due(self) -> None:
        """All that is due now."""
        for where in list(self._due.to_heal):
            del self._due.to_heal[where]
            replica = self._replicas.find(where)
            if replica is not None:
                await self._heal(replica)

    async def _heal(self, replica: Replica) -> None:
        match self._assignment.remedy(replica):
            case Remedy.NONE:
                return
            case Remedy.GIVE_UP:
                await self._give_up(replica)
            case Remedy.FETCH_AGAIN | Remedy.ACCEPT_LOSS if replica.busy:
                replica.on_settled = self._assignment.give_role
            case Remedy.FETCH_AGAIN:
                await self._truncate_for_fetching(replica)
                self._is_whole(replica)
            case Remedy.ACCEPT_LOSS:
                await self._truncate_at_loss(replica)
                self._is_whole(replica)

    async def _give_up(self, replica: Replica) -> None:
        """The watch tells when it is in the metadata; what is to be done next is looked at then."""
        write = strip_replica(self._image, self._config.broker_id, replica.where)
        if write is None:
            return
        try:
            result = await self._store.txn(write.compares, [Put(write.key, write.value)])
        except (StoreUnavailable, OutcomeUnknown):
            result = None
        if result is not None and result.succeeded:
            replica.given_up()
        else:
            await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
            self._due.heal(replica.where)

    async def _truncate_for_fetching(self, replica: Replica) -> None:
        """Truncate the log where the damaged segment begins, which is kept beside it. The rest comes from the leader,
        verified as any fetch is.

        Where the journal or checkpoint was damaged it is not known where that is: everything is fetched again.
        """
        log = replica.log
        replica.repairs += 1
        cut = log.log_start_offset if isinstance(replica.health, LostTail) else log.scrub.refetch_from()
        if cut < log.log_start_offset:
            await self._committer.start_over(replica, cut, log.state_at_start())
        else:
            await self._committer.truncate(replica, cut, declared=True)
        self._set_aside_in(replica)

    async def _truncate_at_loss(self, replica: Replica) -> None:
        """Truncate the log where the new generation begins; it leads then."""
        if replica.log.damage:
            replica.repairs += 1
            await self._committer.truncate(replica, replica.sound_end_offset, declared=True)
            self._set_aside_in(replica)

    def _is_whole(self, replica: Replica) -> None:
        replica.made_whole()
        self._assignment.give_role(replica)

    def _set_aside_in(self, replica: Replica) -> None:
        """What was truncated of it may be kept beside it."""
        self._quarantine.look_in(layout.partition_directory(replica.where), self._clock.now_ms())

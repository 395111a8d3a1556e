"""All links of this broker to the leaders that it follows: one a broker, made when it is first needed."""

from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.metadata.image import ClusterImage
from data_plane.node.environment import Environment
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Peer, peer_of
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.leader_link import LeaderLink
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.replicas.step_aside import StepAside
from penstock.contract.ids import BrokerId

Spawn = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a coroutine as long as the node runs."""


class LeaderLinks:
    """Opens everything again when this broker begins or ends to step aside: leaders take it back after that."""

    def __init__(
        self,
        environment: Environment,
        *,
        image: ClusterImage,
        registration: Registration,
        committer: Committer,
        due: DueWork,
        disk_space: DiskSpace,
        step_aside: StepAside,
        spawn: Spawn,
    ) -> None:
        self._environment = environment
        self._image = image
        self._registration = registration
        self._committer = committer
        self._due = due
        self._spawn = spawn
        self._disk_space = disk_space
        self._step_aside = step_aside
        self._links: dict[BrokerId, LeaderLink] = {}
        disk_space.listen(self.open_again)
        step_aside.listen(self.open_again)

    def follow(self, replica: Replica, following: Following) -> None:
        self._link(following.leader).follow(replica, following)

    def leave(self, replica: Replica, following: Following) -> None:
        """It no longer follows so."""
        self._links[following.leader].leave(replica)

    def leave_all(self, replica: Replica) -> None:
        """It takes no part any more. Its leader is notified, so that it does not count as caught up."""
        for link in self._links.values():
            link.leave(replica)

    def tell(self, replica: Replica) -> None:
        """The replica's durable records changed: report that to its leader."""
        if replica.following is not None:
            self._links[replica.following.leader].became_durable(replica)

    def open_again(self) -> None:
        """Report to each leader by a new open."""
        for link in self._links.values():
            link.open_again()

    def _link(self, leader: BrokerId) -> LeaderLink:
        link = self._links.get(leader)
        if link is None:
            environment = self._environment
            link = self._links[leader] = LeaderLink(
                leader,
                lambda: self._peer(leader),
                lambda: self._registration.epoch,
                environment.config,
                environment.transport,
                self._committer,
                environment.clock,
                environment.rng,
                stats=environment.stats,
                trim=self._due.trim,
                full=lambda: self._disk_space.full,
                stays_out=lambda: bool(self._disk_space.full) or self._step_aside.slow,
            )
            self._spawn(link.run())
        return link

    def _peer(self, broker: BrokerId) -> Peer | None:
        known = self._image.brokers.get(broker)
        return None if known is None or not known.epoch else peer_of(known.record)

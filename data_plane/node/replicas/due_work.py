"""What is to be done with replicas here and needs an await: noted at once, done by a loop of its own."""

import asyncio

from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import TopicPartition


class DueWork:
    """Each queue is emptied by one loop; `wake` is set when there is something in it, `removal` for what is to go."""

    def __init__(self) -> None:
        self.to_make: dict[TopicPartition, None] = {}
        self.to_heal: dict[TopicPartition, None] = {}
        self.to_trim: dict[TopicPartition, int] = {}
        self.to_remove: list[Replica] = []
        self.wake = asyncio.Event()
        self.removal = asyncio.Event()

    def make(self, where: TopicPartition) -> None:
        """The metadata wants a replica here, and there is none."""
        self.to_make[where] = None
        self.wake.set()

    def heal(self, where: TopicPartition) -> None:
        """The replica here is not sound, and something may be done about it."""
        self.to_heal[where] = None
        self.wake.set()

    def trim(self, replica: Replica, offset: int) -> None:
        """Let the replica's log begin at `offset`, soon. Followers do when their leader says so, leaders last."""
        self.to_trim[replica.where] = offset
        self.wake.set()

    def remove(self, replica: Replica) -> None:
        """Nothing waits for it any more."""
        self.to_remove.append(replica)
        self.removal.set()

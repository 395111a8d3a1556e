"""A leader whose log goes on beyond what is committed: the committed end and the written one are told apart."""

from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from tests.unit.log.batches import made_batch, with_header
from tests.unit.log.miniature import Miniature
from tests.unit.node.replicas.test_follower_stream import held_by_other, led

COMMITTED, WRITTEN = 20, 40
"""Ten and twenty batches of two records."""
SEGMENT = 8
"""Offsets of each closed segment: two of them are committed, and four are closed."""


def led_beyond_commit(broker: Miniature | None = None, *, clock: Clock | None = None) -> Replica:
    """All is durable here; the replica in sync holds what lies below COMMITTED."""
    storage = broker or Miniature()
    replica = led(storage, clock=clock)
    for number in range(WRITTEN // 2):
        write(replica, number)
    storage.commit(raise_watermark=False)
    replica.became_durable()
    held_by_other(replica, COMMITTED)
    assert replica.log.scrub.closed(WRITTEN)[-1].end_offset == WRITTEN - SEGMENT
    assert (replica.log.high_watermark, replica.log.log_end_offset) == (COMMITTED, WRITTEN)
    return replica


def write(replica: Replica, number: int = 0) -> None:
    """A batch of two records, for which nobody waits."""
    batch, header = with_header(made_batch(2, 900, fill=number))
    replica.produce(batch, header, acks=0, claimed_epoch=1, principal=5, answer=lambda outcome: None)

"""What is to be done for a partition that is led, in one value and in its order (as `Ready` of etcd's raft).

Events change a `LeaderState` and do nothing else. After each one the shell takes the `Effects` and carries them out
field by field, without an await in between. These orders are kept so:

    a leader epoch is noted in the log before a follower is accepted in it (RL27)
    a batch is handed over to be synced and to be pushed at once; neither waits for the other
    the high watermark is noted in the log before an answer or a consumer rests on it (RL20)
    a batch is answered when as much is durable, or committed, as its producer asked for (RL14)
    followers that have to open again hear so before the in-sync set is looked at
    the in-sync set is looked at last; a change counts from its proposal on, and is in force when the store has said so
"""

from enum import Enum
from typing import NamedTuple


class Look(Enum):
    """When the in-sync set has to be looked at."""

    UNNEEDED = "unneeded"
    IN_TIME = "in time"
    """On the next beat: as time passes, a replica may have to leave."""
    NOW = "now"
    """A replica that is not in sync moved: it may join."""


class Effects(NamedTuple):
    """To be carried out in the order of the fields. A tuple because one is made for each batch."""

    begin_epoch: int
    """Note in the log that this leader epoch begins at its end; NO_EPOCH when that was done."""
    unsynced_bytes: int
    """Make durable what the log took, so many bytes more; 0 for nothing. `LeaderState.became_durable` follows."""
    push: bool
    """Wake the streams of followers: there is more to push."""
    high_watermark: int
    """Note it in the log. Everything before it is committed."""
    durable_end: int
    """Answer batches that wait for the leader's disk and end at or below it, then those that wait to be committed and
    end at or below `high_watermark`."""
    committed: bool
    """The watermark moved: tell those who read up to there."""
    outdated: bool
    """End the streams of followers that do not follow any more by this leader's state: they have to open again."""
    look: Look
    """Look at the in-sync set."""

"""What the curves go over: one load in the middle, and five ways away from it."""

from dataclasses import dataclass, replace

FRAME_BYTES = 1_000_000
"""A frame carries ten batches at most, and only so many bytes more than one batch."""
FRAME_BATCHES = 10
IN_FLIGHT_BYTES = 16_000_000
"""Of all producers together, at most: half the credit of one stream."""
IN_FLIGHT_FRAMES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One load. The brokers of its cluster are as many as its copies, three at least but for one copy."""

    partitions: int = 10
    producers: int = 1
    message_bytes: int = 100
    batch_messages: int = 10
    copies: int = 3

    @property
    def batch_bytes(self) -> int:
        """About: headers are left out."""
        return self.message_bytes * self.batch_messages

    @property
    def frame_batches(self) -> int:
        """Batches that a producer sends together."""
        return max(1, min(FRAME_BATCHES, FRAME_BYTES // self.batch_bytes))

    @property
    def window(self) -> int:
        """Frames that each producer may have unanswered: the same in all, however many there are."""
        frames = min(IN_FLIGHT_FRAMES, IN_FLIGHT_BYTES // (self.batch_bytes * self.frame_batches))
        return max(1, frames // self.producers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One number of the load that grows while the others stay."""

    field: str
    title: str
    values: tuple[int, ...]

    def shape(self, value: int) -> Shape:
        return replace(Shape(), **{self.field: value})


PRODUCERS = Axis(field="producers", title="producers", values=(1, 10, 50, 200))
MESSAGE_BYTES = Axis(field="message_bytes", title="bytes a message", values=(10, 100, 1_000, 10_000, 100_000))
BATCH_MESSAGES = Axis(field="batch_messages", title="messages a batch", values=(1, 10, 100, 1_000, 10_000))
PARTITIONS = Axis(field="partitions", title="partitions", values=(1, 10, 100, 500, 2_000))
COPIES = Axis(field="copies", title="copies, on as many brokers", values=(1, 3, 5))
AXES = (PARTITIONS, PRODUCERS, MESSAGE_BYTES, BATCH_MESSAGES, COPIES)

"""The leader-epoch file: where each leader epoch began in this log (RL25, RL27, RL28)."""

import struct
from bisect import bisect_right
from collections.abc import Iterable

from data_plane.log.small_file import SmallFileCorrupt, SmallFileKind, pack_small_file, unpack_small_file
from penstock.contract.invariant import invariant

_ENTRY = struct.Struct(">iq")
FORMAT_VERSION = 1
NO_EPOCH = -1


class LeaderEpochs:
    """Pairs (epoch, start offset), both strictly growing except that an epoch without records shares its
    successor's start.

    A cache: rebuilt from the stamps on recovery. An epoch that began without records is known from here alone; after a
    crash it is not needed.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in pairs:
            self.begin(epoch, start)

    @property
    def last(self) -> int:
        """Largest epoch known, -1 for none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def begin(self, epoch: int, start: int) -> bool:
        """Note that `epoch` begins at offset `start`; entries in conflict at the tail go. False when it was known
        already."""
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start:
            return False
        invariant(epoch >= 0 and start >= 0, f"epoch {epoch} begins at offset {start}")
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        return True

    def end_offset_for(self, epoch: int, log_start: int, log_end: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, where it ends).

        Below the first entry: (`epoch`, start of the first entry), so that a follower falls back to there (RL28).
        Without entries: (-1, `log_start`).
        """
        if not self._epochs:
            return NO_EPOCH, log_start
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return epoch, self._starts[0]
        if at == len(self._epochs):
            return self._epochs[-1], log_end
        return self._epochs[at - 1], self._starts[at]

    def truncate_end(self, offset: int) -> bool:
        """Forget what begins at or above `offset`: the log now ends there. True when something changed."""
        before = len(self._epochs)
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()
        return len(self._epochs) != before

    def truncate_start(self, offset: int) -> bool:
        """The log now starts at `offset`: the epoch that holds it begins there, older ones go. True when something
        changed."""
        if not self._starts or self._starts[0] >= offset:
            return False
        at = max(0, bisect_right(self._starts, offset) - 1)
        del self._epochs[:at]
        del self._starts[:at]
        self._starts[0] = max(self._starts[0], offset)
        return True

    def pack(self) -> bytes:
        body = b"".join(_ENTRY.pack(*pair) for pair in self.pairs())
        return pack_small_file(SmallFileKind.EPOCHS, FORMAT_VERSION, body)

    @classmethod
    def unpack(cls, data: bytes) -> "LeaderEpochs":
        """Raises `SmallFileCorrupt` for anything that `pack` did not write."""
        version, body = unpack_small_file(SmallFileKind.EPOCHS, data)
        if version != FORMAT_VERSION or len(body) % _ENTRY.size:
            raise SmallFileCorrupt(
                f"epochs: version {version}, {len(body)} bytes; version {FORMAT_VERSION} known"
            )
        pairs = list(_ENTRY.iter_unpack(body))
        epochs = cls()
        for epoch, start in pairs:
            if (
                epoch < 0
                or start < 0
                or (epochs._epochs and (epoch <= epochs.last or start <= epochs._starts[-1]))
            ):
                raise SmallFileCorrupt(f"epochs: {pairs} do not grow")
            epochs.begin(epoch, start)
        return epochs

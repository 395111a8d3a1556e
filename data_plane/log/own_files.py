"""The files of one log as a whole: made durable when it is born and at checkpoints, let go when idle and at the end."""

from collections.abc import Sequence

from data_plane.disk.port import SyncStep
from data_plane.log.birth import Birth
from data_plane.log.derived import SNAPSHOT_BATCHES, DerivedState
from data_plane.log.pending import LogFlush, PendingWrites
from data_plane.log.sealing import SealFile, Sealing
from data_plane.log.segments import Segments


class OwnFiles:
    """Open, then closed."""

    def __init__(
        self, birth: Birth, segments: Segments, seals: SealFile, derived: DerivedState, sealing: Sealing,
        pending: PendingWrites,
    ) -> None:  # fmt: skip
        self._birth = birth
        self._segments = segments
        self._seals = seals
        self._derived = derived
        self._sealing = sealing
        self._pending = pending
        self._checkpoint: LogFlush | None = None
        self.closed = False

    def begin_checkpoint(self, high_watermark: int, log_end: int) -> Sequence[SyncStep]:
        """Write the caches that are due; steps that sync everything as it is now. Another one that did not end is
        given up."""
        self._derived.keep_snapshot(even_if_small=False)
        self._write_caches(high_watermark, unindexed_max=SNAPSHOT_BATCHES)
        if self._checkpoint is not None:
            self._pending.give_up_flush(self._checkpoint)
        self._checkpoint, steps = self._pending.begin_flush(log_end)
        return steps

    def end_checkpoint(self) -> None:
        """The steps were synced."""
        if self._checkpoint is not None:
            self._pending.end_flush(self._checkpoint)
            self._checkpoint = None

    def _write_caches(self, high_watermark: int, *, unindexed_max: int) -> None:
        if not self._segments.all:
            return  # of epochs without records nothing needs to be known after a restart, and thousands may be empty
        self._derived.write_new_epochs()
        unsealed = self._sealing.unsealed_base
        self._derived.write_snapshot(high_watermark if unsealed is None else min(high_watermark, unsealed))
        active = self._segments.active
        if active is not None and active.unindexed_count >= unindexed_max:
            active.write_index()

    def release(self) -> None:
        """Close what needs not stay open; the next use opens it again."""
        self._segments.release_files()
        self._seals.close()

    def close(self, high_watermark: int, *, clean: bool) -> None:
        """Close everything, once; before a clean stop write all caches."""
        if self.closed:
            return
        self.closed = True
        if clean:
            self._derived.keep_snapshot(even_if_small=True)
            self._write_caches(high_watermark, unindexed_max=1)
        self._segments.close()
        self._seals.close(abandon=True)
        self._birth.close()

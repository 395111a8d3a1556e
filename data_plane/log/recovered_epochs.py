"""The leader epochs of a log that is opened again: what the stamps tell, and what only the file knows."""

from data_plane.disk.port import Disk, FileMissing
from data_plane.log import layout
from data_plane.log.epochs import LeaderEpochs
from data_plane.log.segment import Segment, Unreadable
from data_plane.log.segments import Segments
from data_plane.log.small_file import SmallFileCorrupt, read_whole


def read_epochs(disk: Disk, directory: str) -> LeaderEpochs | None:
    """The leader-epoch file; None when it is missing or bad."""
    try:
        return LeaderEpochs.unpack(read_whole(disk, f"{directory}/{layout.EPOCHS_FILE}"))
    except (FileMissing, SmallFileCorrupt):
        return None


def epochs_of(segments: Segments, kept: LeaderEpochs, log_start: int, log_end: int) -> LeaderEpochs:
    """The leader epochs as the stamps tell them, and one begun at the log's end, which only the file knows."""
    epochs = LeaderEpochs()
    for segment in segments.all:
        _epochs_within(segment, epochs)
    for epoch, start in kept.pairs():
        if epoch > epochs.last and start == log_end:
            epochs.begin(epoch, start)
    first = segments.all[0].base_offset if segments.all else log_start
    epochs.truncate_start(min(first, log_start))
    return epochs


def _epochs_within(segment: Segment, epochs: LeaderEpochs) -> None:
    """Find where epochs begin by halving: they never decrease along the stamps."""

    def search(low: int, low_epoch: int, high: int, high_epoch: int) -> None:
        """The first batch of every epoch above `low_epoch` among stamps (low, high]."""
        if low_epoch == high_epoch:
            return
        if high - low <= 1:
            epochs.begin(high_epoch, segment.stamp(high).base_offset)
            return
        middle = (low + high) // 2
        epoch = segment.stamp(middle).leader_epoch
        search(low, low_epoch, middle, epoch)
        search(middle, epoch, high, high_epoch)

    if segment.first_epoch == segment.last_epoch >= 0:
        if segment.first_epoch > epochs.last:
            epochs.begin(segment.first_epoch, segment.base_offset)
        return
    try:
        first = segment.stamp(0).leader_epoch
        if first > epochs.last:
            epochs.begin(first, segment.base_offset)
        last = segment.stamp_count - 1
        search(0, first, last, segment.stamp(last).leader_epoch)
    except Unreadable:
        for _, stamp in segment.good_stamps(0):
            if stamp.leader_epoch > epochs.last:
                epochs.begin(stamp.leader_epoch, stamp.base_offset)

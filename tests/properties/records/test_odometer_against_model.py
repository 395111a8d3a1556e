"""The odometer against a model that looks at the whole prefix each time."""

from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.seal import SegmentDigest, pack_seal, unpack_seal
from penstock.records.stamp import Stamp, StampFlag, pack_stamp, stamp_seed
from penstock.records.usage import MinuteRow, Totals
from penstock.rules.odometer import Odometer

from .batches import stamps

HERE = TopicPartition(TopicId(bytes(range(16))), 1)
SEED = stamp_seed(HERE)


def counted_in(prefix: list[Stamp]) -> list[tuple[int, int, Stamp]]:
    """(position of the stamp where it counts as committed, minute, batch) of each committed batch, found backwards."""
    found = []
    for at, stamp in enumerate(prefix):
        if stamp.flags & (StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT):
            continue
        if not stamp.flags & StampFlag.TRANSACTIONAL:
            found.append((at, stamp.accepted_ms // 60_000, stamp))
            continue
        place = marker_of(prefix, at)
        if place is not None and prefix[place].flags & StampFlag.CONTROL_COMMIT:
            found.append((place, prefix[place].accepted_ms // 60_000, stamp))
    return found


def marker_of(prefix: list[Stamp], at: int) -> int | None:
    for place in range(at + 1, len(prefix)):
        marker = prefix[place].flags & (StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT)
        if marker and prefix[place].producer_id == prefix[at].producer_id:
            return place
    return None


def model_totals(prefix: list[Stamp]) -> Totals:
    committed = [stamp for _, _, stamp in counted_in(prefix)]
    control = [s for s in prefix if s.flags & (StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT)]
    aborted = []
    for at, stamp in enumerate(prefix):
        place = marker_of(prefix, at)
        if stamp in control or not stamp.flags & StampFlag.TRANSACTIONAL or place is None:
            continue
        if prefix[place].flags & StampFlag.CONTROL_ABORT:
            aborted.append(stamp)
    numbers = []
    for group in (committed, aborted, control):
        numbers += [sum(s.record_count for s in group), sum(s.size for s in group)]
    return Totals.from_tuple(tuple(numbers))


def model_rows(counted: list[tuple[int, int, Stamp]]) -> tuple[MinuteRow, ...]:
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for _, minute, stamp in counted:
        sums[minute, stamp.principal][0] += stamp.record_count
        sums[minute, stamp.principal][1] += stamp.size
    return tuple(MinuteRow(*key, *row) for key, row in sorted(sums.items()))


@given(stamps())
def test_totals_and_rows_of_every_prefix_are_those_of_the_model(log: list[Stamp]) -> None:
    odometer = Odometer()
    segment = 0
    for length, stamp in enumerate(log, 1):
        odometer.apply(stamp)
        prefix = log[:length]
        if stamp.flags & StampFlag.FIRST_OF_SEGMENT:
            segment = length - 1
        counted = counted_in(prefix)
        minute = stamp.accepted_ms // 60_000
        assert odometer.end_offset == stamp.end_offset
        assert odometer.totals == model_totals(prefix)
        assert odometer.minute_rows == model_rows([row for row in counted if row[1] == minute])
        assert odometer.segment_rows == model_rows([row for row in counted if row[0] >= segment])


@given(stamps(), st.data())
def test_a_state_kept_anywhere_and_taken_up_again_changes_nothing(
    log: list[Stamp], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(log)))
    whole, first = Odometer(), Odometer()
    for stamp in log:
        whole.apply(stamp)
    for stamp in log[:cut]:
        first.apply(stamp)
    kept = first.encode(SEED)
    second = Odometer.decode(kept, SEED)
    assert second.encode(SEED) == kept
    for stamp in log[cut:]:
        second.apply(stamp)
    assert second.encode(SEED) == whole.encode(SEED)


@given(stamps(start_offset=5_000))
def test_every_byte_is_committed_aborted_control_or_open(log: list[Stamp]) -> None:
    odometer = Odometer(5_000)
    for stamp in log:
        odometer.apply(stamp)
    totals = odometer.totals
    still_open = odometer.open_transactions.values()
    assert sum(stamp.size for stamp in log) == (
        totals.committed_bytes
        + totals.aborted_bytes
        + totals.control_bytes
        + sum(size for _, size in still_open)
    )
    assert sum(stamp.record_count for stamp in log) == (
        totals.committed_messages
        + totals.aborted_messages
        + totals.control_records
        + sum(messages for messages, _ in still_open)
    )


@given(stamps())
def test_seals_of_a_log_join_without_a_gap_and_read_back(log: list[Stamp]) -> None:
    odometer, digest = Odometer(), SegmentDigest(HERE, 0)
    seals = []
    for index, stamp in enumerate(log):
        if index and stamp.flags & StampFlag.FIRST_OF_SEGMENT:
            seals.append(odometer.seal(HERE, digest.digest()))
            digest = SegmentDigest(HERE, stamp.base_offset)
        digest.add(bytes(61), pack_stamp(stamp, SEED))
        odometer.apply(stamp)
    seals.append(odometer.seal(HERE, digest.digest()))
    stored, at = b"".join(map(pack_seal, seals)), 0
    for seal in seals:
        read, at = unpack_seal(stored, at)
        assert read == seal
    assert at == len(stored)
    assert seals[0].before == Totals()
    assert seals[-1].totals == odometer.totals
    # A state taken up from the seals alone is the state itself.
    assert Odometer.resumed(seals).encode(SEED) == odometer.encode(SEED)
    for earlier, later in pairwise(seals):
        assert (later.base_offset, later.before) == (earlier.end_offset, earlier.totals)

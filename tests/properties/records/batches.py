"""Strategies for messages, and for stamps of a partition with transactions."""

from hypothesis import strategies as st

from penstock.records.stamp import Stamp, StampFlag

TIMES = st.integers(min_value=0, max_value=2**62)
CONTENTS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), CONTENTS), max_size=4)
MESSAGES = st.lists(st.tuples(TIMES, CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=40)

PRODUCERS = (5, 6)
PRINCIPALS = (0, 1, 2**32 - 1)


@st.composite
def stamps(draw: st.DrawFn, start_offset: int = 0) -> list[Stamp]:
    """The stamps of one partition, as a leader may write them."""
    made: list[Stamp] = []
    offset, time, position = start_offset, 1_700_000_000_000, 0
    for index in range(draw(st.integers(1, 40))):
        kind = draw(
            st.sampled_from(
                [
                    StampFlag.NONE,
                    StampFlag.TRANSACTIONAL,
                    StampFlag.TRANSACTIONAL,
                    StampFlag.TRANSACTIONAL | StampFlag.CONTROL_COMMIT,
                    StampFlag.TRANSACTIONAL | StampFlag.CONTROL_ABORT,
                ]
            )
        )
        marker = bool(kind & (StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT))
        if index == 0 or draw(st.integers(0, 4)) == 0:
            kind |= StampFlag.FIRST_OF_SEGMENT
            position = 0
        span = 1 if marker else draw(st.integers(1, 1_000))
        size = draw(st.integers(62, 100_000))
        time += draw(st.sampled_from([0, 1, 900, 30_000, 60_000, 200_000]))
        made.append(
            Stamp(
                base_offset=offset,
                offset_span=span,
                record_count=span,
                size=size,
                leader_epoch=1,
                accepted_ms=time,
                principal=0 if marker else draw(st.sampled_from(PRINCIPALS)),
                producer_id=draw(st.sampled_from(PRODUCERS)) if kind & StampFlag.TRANSACTIONAL else -1,
                producer_epoch=0,
                flags=int(kind),
                position=position,
                base_sequence=-1,
            )
        )
        offset += span
        position += size
    return made

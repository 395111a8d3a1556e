"""Any log, any producers with receipts: an honest bill agrees, and one that hides or adds something does not."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.contract.ids import TopicId, TopicPartition
from penstock.receipts import AcknowledgedRange, Receipts, ReceiptsSource
from penstock.receipts.spans import SpanKey, Spans
from penstock.rules.timestamps import DAY_MS, day_start_ms
from penstock.verification.receipts_check import BilledPart, ReceiptsComparison, check_receipts

HERE = TopicPartition(TopicId(bytes(16)), 4)
FIRST_DAY = date(2026, 1, 1)
DAYS = 6


@dataclass(frozen=True, slots=True)
class Batch:
    day: int
    epoch: int
    producer: int
    """0 keeps no receipts."""
    messages: int
    size: int


@dataclass(frozen=True, slots=True)
class Log:
    batches: list[Batch]

    def bounds(self) -> list[int]:
        at, found = 0, [0]
        for batch in self.batches:
            at += batch.messages
            found.append(at)
        return found

    def receipts(self) -> Receipts:
        """What producers 1 and 2 wrote, read back and merged."""
        parts = []
        for producer in (1, 2):
            spans, at = Spans(), 0
            for batch in self.batches:
                if batch.producer == producer:
                    key = SpanKey(HERE.topic_id, HERE.partition, batch.day, batch.epoch, -1)
                    spans.add(key, at, at + batch.messages, batch.size)
                at += batch.messages
            ranges = tuple(
                AcknowledgedRange(
                    first_offset=span.first,
                    end_offset=span.end,
                    bytes=span.size,
                    day=FIRST_DAY + timedelta(key.day),
                    leader_epoch=key.leader_epoch,
                    acks=-1,
                    source=str(producer),
                )
                for key, of_key in spans
                for span in of_key
            )
            parts.append(
                Receipts(
                    sources=(ReceiptsSource(path=str(producer), file_id=bytes([producer]), torn_bytes=0),),
                    topics={HERE.topic_id: "orders"},
                    ranges={HERE: ranges} if ranges else {},
                )
            )
        return Receipts.merged(*parts)

    def part(self, begins: int, ends: int, *, counted: bool) -> BilledPart:
        """The honest bill of days [begins, ends)."""
        bounds = self.bounds()
        within = [place for place, batch in enumerate(self.batches) if begins <= batch.day < ends]
        before = [place for place, batch in enumerate(self.batches) if batch.day < begins]
        start = bounds[len(before)]
        end = bounds[len(before) + len(within)]
        totals = {0: (0, 0)}
        size = 0
        for place, batch in enumerate(self.batches):
            size += batch.size
            totals[bounds[place + 1]] = (bounds[place + 1], size)
        return BilledPart(
            topic="orders",
            where=HERE,
            start_offset=start,
            end_offset=end,
            messages=end - start,
            bytes=sum(self.batches[place].size for place in within),
            totals_at=totals.get if counted else None,
            read_from=start if counted else None,
        )


def compared(log: Log, part: BilledPart, begins: int, ends: int, *, complete: bool) -> ReceiptsComparison:
    start = day_start_ms(FIRST_DAY)
    return check_receipts(
        log.receipts(),
        [part],
        period_start_ms=start + begins * DAY_MS,
        period_end_ms=start + ends * DAY_MS,
        complete=complete,
    )


@st.composite
def logs(draw: st.DrawFn, producers: tuple[int, ...] = (0, 1, 2)) -> Log:
    shape = draw(
        st.lists(
            st.tuples(
                st.booleans(),
                st.booleans(),
                st.sampled_from(producers),
                st.integers(1, 5),
                st.integers(61, 300),
            ),
            min_size=1,
            max_size=25,
        )
    )
    day = epoch = 0
    batches = []
    for next_day, next_epoch, producer, messages, size in shape:
        day, epoch = min(day + next_day, DAYS - 1), epoch + next_epoch
        batches.append(Batch(day, epoch, producer, messages, size))
    return Log(batches)


PERIODS = st.tuples(st.integers(0, DAYS - 1), st.integers(1, DAYS)).filter(
    lambda period: period[0] < period[1]
)


@given(log=logs(), period=PERIODS, counted=st.booleans())
def test_an_honest_bill_agrees_with_every_producers_receipts(
    log: Log, period: tuple[int, int], counted: bool
) -> None:
    comparison = compared(log, log.part(*period, counted=counted), *period, complete=False)
    assert comparison.agrees, comparison.findings
    told = sum(
        batch.messages for batch in log.batches if batch.producer and period[0] <= batch.day < period[1]
    )
    assert comparison.messages_covered == told


@given(log=logs(producers=(1, 2)), period=PERIODS, counted=st.booleans())
def test_with_everybodys_receipts_nothing_at_all_is_left_to_say(
    log: Log, period: tuple[int, int], counted: bool
) -> None:
    comparison = compared(log, log.part(*period, counted=counted), *period, complete=True)
    assert comparison.findings == ()
    assert comparison.messages_covered == comparison.messages_billed


@given(log=logs(producers=(1, 2)), period=PERIODS, messages=st.integers(-5, 5), size=st.integers(-99, 99))
def test_with_everybodys_receipts_no_other_bill_agrees(
    log: Log, period: tuple[int, int], messages: int, size: int
) -> None:
    true = log.part(*period, counted=False)
    assume((messages, size) != (0, 0) and true.messages + messages >= 0 and true.bytes + size >= 0)
    assume(true.messages > 0)
    told = replace(true, messages=true.messages + messages, bytes=true.bytes + size)
    assert not compared(log, told, *period, complete=False).agrees


@given(log=logs(), period=PERIODS, data=st.data())
def test_a_log_that_lost_or_changed_an_acknowledged_batch_does_not_agree(
    log: Log, period: tuple[int, int], data: st.DataObject
) -> None:
    own = [
        place
        for place, batch in enumerate(log.batches)
        if batch.producer and period[0] <= batch.day < period[1]
    ]
    assume(own)
    place = data.draw(st.sampled_from(own))
    shape = data.draw(st.sampled_from(["cut off", "larger", "smaller"]))
    batch = log.batches[place]
    if shape == "cut off":
        altered = Log(log.batches[:place])
    else:
        other = replace(batch, size=batch.size + (1 if shape == "larger" else -1))
        altered = Log([*log.batches[:place], other, *log.batches[place + 1 :]])
    part = altered.part(*period, counted=True)
    assert not compared(log, part, *period, complete=False).agrees


@given(log=logs(producers=(0, 1)), period=PERIODS, data=st.data())
def test_an_offset_that_another_file_was_given_too_does_not_agree(
    log: Log, period: tuple[int, int], data: st.DataObject
) -> None:
    own = [place for place, batch in enumerate(log.batches) if batch.producer]
    assume(own)
    place = data.draw(st.sampled_from(own))
    first = log.bounds()[place]
    receipts = log.receipts()
    twin = replace(receipts.ranges[HERE][0], first_offset=first, end_offset=first + 1, source="2")
    both = replace(
        receipts, ranges={HERE: tuple(sorted((*receipts.ranges[HERE], twin), key=lambda r: r.first_offset))}
    )
    comparison = check_receipts(
        both,
        [log.part(*period, counted=True)],
        period_start_ms=day_start_ms(FIRST_DAY) + period[0] * DAY_MS,
        period_end_ms=day_start_ms(FIRST_DAY) + period[1] * DAY_MS,
        complete=False,
    )
    assert not comparison.agrees

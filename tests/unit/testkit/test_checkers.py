"""Each history checker finds what it is there to find, and is content with a correct history."""

from collections.abc import Callable

import pytest

from data_plane.testkit.checkers import Evidence, check_history
from data_plane.testkit.history import Anomaly, History, Mark, MarkKind, Outcome, ReadBatch, SentBatch
from data_plane.testkit.invariants import InvariantViolated
from penstock.contract.ids import TopicId, TopicPartition

WHERE = TopicPartition(TopicId(b"t" * 16), 0)


def _sent(
    order: int, outcome: Outcome, offset: int = -1, *, acks: int = -1, idempotent: bool = True
) -> SentBatch:
    values = (b"p/%d-a..." % order, b"p/%d-b" % order)
    sent = SentBatch("p", WHERE, order, values, acks, idempotent, order * 1.0)
    sent.offset = offset
    sent.resolve(outcome, order + 0.5)
    return sent


def _evidence() -> Evidence:
    """Batches 1 and 2 acknowledged at 0 and 2, batch 3 refused, batch 4 unknown and in the log, one reader."""
    history = History(names={WHERE: "topic-0"})
    history.sent += [
        _sent(1, Outcome.APPLIED, 0),
        _sent(2, Outcome.APPLIED, 2),
        _sent(3, Outcome.NOT_APPLIED),
        _sent(4, Outcome.UNKNOWN),
    ]
    first, second, _, fourth = (sent.values for sent in history.sent)
    history.reads += [
        ReadBatch("r", WHERE, 3.0, 0, first, 1, 1),
        ReadBatch("r", WHERE, 4.0, 2, second, 1, 1),
        ReadBatch("r", WHERE, 5.0, 1, first[1:], 1, 2),
    ]
    history.marks += [Mark("r", WHERE, MarkKind.END, end, float(end), 1) for end in (0, 2, 4)]
    final = dict(enumerate((*first, *second, *fourth)))
    return Evidence(history=history, final={WHERE: final}, log_starts={WHERE: 0})


def test_a_correct_history_passes() -> None:
    check_history(_evidence())


def test_what_retention_removed_is_not_lost() -> None:
    evidence = _evidence()
    evidence.log_starts[WHERE] = 2
    del evidence.final[WHERE][0], evidence.final[WHERE][1]
    check_history(evidence)


def _drop_the_acknowledged(evidence: Evidence) -> None:
    del evidence.final[WHERE][3]


def _drop_what_was_read_only(evidence: Evidence) -> None:
    evidence.history.sent[0].outcome = Outcome.UNKNOWN
    del evidence.final[WHERE][0]


def _show_the_refused(evidence: Evidence) -> None:
    evidence.final[WHERE][6] = evidence.history.sent[2].values[0]


def _tell_another_reader_otherwise(evidence: Evidence) -> None:
    evidence.history.reads.append(ReadBatch("q", WHERE, 6.0, 0, evidence.history.sent[3].values, 1, 2))


def _repeat_a_value(evidence: Evidence) -> None:
    evidence.final[WHERE][6] = evidence.history.sent[0].values[0]


def _swap_two_batches(evidence: Evidence) -> None:
    first, second = evidence.history.sent[:2]
    first.offset, second.offset = 2, 0
    evidence.history.reads.clear()
    evidence.final[WHERE].update(enumerate((*second.values, *first.values)))


def _make_a_value_up(evidence: Evidence) -> None:
    evidence.final[WHERE][6] = b"nobody sent this"


def _let_the_end_go_back(evidence: Evidence) -> None:
    evidence.history.marks.append(Mark("r", WHERE, MarkKind.END, 3, 9.0, 2))


def _let_a_client_complain(evidence: Evidence) -> None:
    evidence.history.anomalies.append(Anomaly("I1", "refused as out of order", 3.0))


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (_drop_the_acknowledged, "I1"),
        (_drop_what_was_read_only, "I1"),
        (_show_the_refused, "I2"),
        (_tell_another_reader_otherwise, "I3"),
        (_repeat_a_value, "I4"),
        (_swap_two_batches, "I5"),
        (_make_a_value_up, "I19"),
        (_let_the_end_go_back, "I13"),
        (_let_a_client_complain, "I1"),
    ],
)
def test_a_spoilt_history_is_found_by_name(spoil: Callable[[Evidence], None], name: str) -> None:
    evidence = _evidence()
    spoil(evidence)
    with pytest.raises(InvariantViolated) as violated:
        check_history(evidence)
    assert violated.value.name == name


def test_what_was_not_acknowledged_may_vanish() -> None:
    evidence = _evidence()
    evidence.history.sent[1].acks = 1
    evidence.history.reads.pop(1)
    del evidence.final[WHERE][2], evidence.final[WHERE][3]
    check_history(evidence)


def test_a_producer_without_sequence_numbers_may_repeat_itself() -> None:
    evidence = _evidence()
    evidence.history.sent[0].idempotent = False
    _repeat_a_value(evidence)
    check_history(evidence)


def test_another_client_may_be_told_an_older_end() -> None:
    evidence = _evidence()
    evidence.history.marks.append(Mark("q", WHERE, MarkKind.END, 3, 9.0, 2))
    check_history(evidence)

"""The checker of I16 accepts what can have been and names what cannot."""

from data_plane.metadata.port import (
    Change,
    Compare,
    Delete,
    Event,
    KeyValue,
    Put,
    RangeResult,
    TxnResult,
    WatchBatch,
)
from data_plane.testkit.store_history import RangeRecord, StoreHistory, TxnRecord, WatchRecord

WITNESS = [
    WatchBatch(1, (Event("/a", b"1", 1),)),
    WatchBatch(2, (Event("/a", b"2", 2), Event("/live", b"x", 2))),
    WatchBatch(3, (Event("/live", None, 3),)),
]


def history() -> StoreHistory:
    """A true history of `WITNESS`: a put, a put under compare with a session's key, a listing, the session's
    end."""
    written = StoreHistory(now=lambda: 0.0)
    written.txns = [
        txn(0, 1, [Compare("/a", 0)], [Put("/a", b"1")], TxnResult(True, 1)),
        txn(2, 3, [Compare("/a", 1)], [Put("/a", b"2"), Put("/live", b"x", 7)], TxnResult(True, 2)),
        txn(2, 4, [Compare("/a", 0)], [Put("/a", b"9")], TxnResult(False, 1)),
        txn(8, 9, [], [Delete("/nothing")], TxnResult(True, 3)),
    ]
    written.ranges = [
        RangeRecord("c", 4, "/", 5, RangeResult(2, (KeyValue("/a", b"2", 2), KeyValue("/live", b"x", 2)))),
        RangeRecord("c", 6, "/live", 7, RangeResult(3, ())),
    ]
    written.watches = [WatchRecord("w", "/live", 0, [WatchBatch(2, (Event("/live", b"x", 2),)), WITNESS[2]])]
    return written


def txn(
    began: float, ended: float, compares: list[Compare], changes: list[Change], result: TxnResult
) -> TxnRecord:
    return TxnRecord("c", began, tuple(compares), tuple(changes), ended, result)


def only(found: list[str], words: str) -> bool:
    return len(found) >= 1 and any(words in claim for claim in found)


def test_a_true_history_is_accepted() -> None:
    assert history().violations(WITNESS) == []


def test_a_lost_update_is_found() -> None:
    written = history()
    written.txns.append(txn(2, 3, [Compare("/a", 1)], [Put("/a", b"3")], TxnResult(True, 2)))
    assert only(written.violations(WITNESS), "succeeded at 2 where its compares do not hold")


def test_two_answers_for_one_revision_are_found() -> None:
    written = history()
    written.txns.append(written.txns[0])
    assert only(written.violations(WITNESS), "given to two transactions")


def test_a_compare_that_failed_without_reason_is_found() -> None:
    written = history()
    written.txns[2] = txn(2, 4, [Compare("/a", 1)], [Put("/a", b"9")], TxnResult(False, 1))
    assert only(written.violations(WITNESS), "failed at 1 although all compares hold")


def test_a_stale_listing_is_found() -> None:
    written = history()
    written.ranges[1] = RangeRecord("c", 6, "/", 7, RangeResult(1, (KeyValue("/a", b"1", 1),)))
    assert only(written.violations(WITNESS), "stands at 1, yet 2 was known")


def test_a_listing_that_mixes_revisions_is_found() -> None:
    written = history()
    written.ranges[0] = RangeRecord("c", 4, "/", 5, RangeResult(2, (KeyValue("/a", b"2", 2),)))
    assert only(written.violations(WITNESS), "listing of '/' differs from revision 2")


def test_a_transaction_that_stands_before_an_earlier_one_is_found() -> None:
    written = history()
    written.txns[0] = txn(5.5, 5.9, [Compare("/a", 0)], [Put("/a", b"1")], TxnResult(True, 1))
    assert only(written.violations(WITNESS), "stands at 1, yet 2 was known")


def test_a_change_nobody_asked_for_is_found() -> None:
    witness = [*WITNESS, WatchBatch(4, (Event("/a", b"stray", 4),))]
    assert only(history().violations(witness), "changes /a, which no client asked for")


def test_a_refused_transaction_that_was_applied_is_found() -> None:
    written = history()
    record = TxnRecord("c", 8, (), (Put("/a", b"4"),), 9, None, refused=True)
    written.txns.append(record)
    witness = [*WITNESS, WatchBatch(4, (Event("/a", b"4", 4),))]
    assert only(written.violations(witness), "no client asked for")


def test_an_unknown_outcome_may_be_applied_or_not() -> None:
    written = history()
    written.txns.append(TxnRecord("c", 8, (), (Put("/a", b"4"),)))
    assert written.violations(WITNESS) == []
    assert written.violations([*WITNESS, WatchBatch(4, (Event("/a", b"4", 4),))]) == []


def test_an_unknown_outcome_cannot_have_been_applied_before_it_began() -> None:
    written = history()
    written.txns[0] = TxnRecord("c", 6, (Compare("/a", 0),), (Put("/a", b"1"),))
    assert only(written.violations(WITNESS), "an unanswered transaction has revision 1")


def test_an_unknown_outcome_that_asked_for_what_the_end_of_a_session_had_done_is_no_contradiction() -> None:
    written = history()
    written.txns.append(TxnRecord("c", 20, (Compare("/live", 2),), (Delete("/live"),)))
    assert written.violations(WITNESS) == []


def test_a_gap_in_a_watch_is_found() -> None:
    written = history()
    del written.watches[0].batches[0]
    assert only(written.violations(WITNESS), "delivered revision 3 where 2 was due")


def test_a_watch_out_of_order_is_found() -> None:
    written = history()
    written.watches[0].batches.reverse()
    assert only(written.violations(WITNESS), "delivered revision 3 where 2 was due")


def test_a_watch_that_tells_half_a_revision_is_found() -> None:
    written = history()
    written.watches = [WatchRecord("w", "/", 1, [WatchBatch(2, (Event("/a", b"2", 2),))])]
    assert only(written.violations(WITNESS), "delivered revision 2 where 2 was due")


def test_a_watch_that_repeats_is_found() -> None:
    written = history()
    written.watches[0].batches.append(WITNESS[2])
    assert only(written.violations(WITNESS), "delivered revision 3 where nothing was due")


def test_revisions_that_go_back_are_found() -> None:
    assert only(history().violations([WITNESS[1], WITNESS[0], WITNESS[2]]), "revision 1 stands after 2")

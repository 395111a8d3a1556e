"""Which metadata store a broker that has seen one before may act on (RL55)."""

import pytest

from data_plane.metadata.lineage import LineageRecord, Witness, refusal

SEEN = Witness(lineage_id="a", revision=100, registered=90)
SAME = LineageRecord(lineage_id="a")


def test_a_broker_that_has_seen_nothing_takes_any_store() -> None:
    assert refusal(Witness(), LineageRecord(lineage_id="b"), revision=1, registration_known=0) == ""


@pytest.mark.parametrize("revision", [100, 101, 10_000])
def test_a_store_that_is_as_new_as_what_was_seen_is_taken(revision: int) -> None:
    assert refusal(SEEN, SAME, revision=revision, registration_known=90) == ""


@pytest.mark.parametrize("revision", [0, 1, 99])
def test_a_store_that_went_back_is_refused(revision: int) -> None:
    said = refusal(SEEN, SAME, revision=revision, registration_known=90)
    assert said == f"it is at revision {revision}, and this broker has seen revision 100"


def test_an_older_store_that_others_wrote_to_is_refused_for_the_registration_that_it_lacks() -> None:
    said = refusal(SEEN, SAME, revision=5_000, registration_known=40)
    assert said == "it does not know this broker's registration at revision 90"


def test_a_broker_that_was_taken_out_of_the_cluster_has_no_record_to_miss() -> None:
    assert refusal(SEEN, SAME, revision=5_000, registration_known=0) == ""


def test_a_store_of_another_history_is_refused_however_new_it_is() -> None:
    other = LineageRecord(lineage_id="b", follows=(("c", 10_000),))
    assert "another history" in refusal(SEEN, other, revision=10_000, registration_known=0)


@pytest.mark.parametrize(("copied_at", "taken"), [(99, False), (100, True), (150, True)])
def test_a_copy_is_taken_when_it_was_made_after_what_was_seen(copied_at: int, taken: bool) -> None:
    copy = SAME.copied("b", copied_at)
    said = refusal(SEEN, copy, revision=copied_at + 1_000, registration_known=copied_at + 3)
    assert (said == "") is taken
    assert taken or "it was copied at revision 99" in said


def test_a_copy_of_a_copy_remembers_both() -> None:
    twice = SAME.copied("b", 120).copied("c", 300)
    assert refusal(SEEN, twice, revision=400, registration_known=0) == ""
    assert refusal(Witness(lineage_id="b", revision=301), twice, revision=400, registration_known=0) != ""


def test_a_store_before_the_copy_that_a_broker_has_acted_on_is_refused() -> None:
    acted_on_the_copy = Witness(lineage_id="b", revision=150)
    assert refusal(acted_on_the_copy, SAME, revision=9_999, registration_known=0) != ""


def test_an_operators_word_lets_every_line_be_followed_but_not_its_own_past() -> None:
    confirmed = LineageRecord(lineage_id="z", confirmed=True)
    assert refusal(SEEN, confirmed, revision=5, registration_known=0) == ""
    assert refusal(Witness(lineage_id="z", revision=9), confirmed, revision=8, registration_known=0) != ""


def test_records_come_back_as_they_were_written() -> None:
    record = LineageRecord(lineage_id="b", follows=(("", 7), ("a", 9)), confirmed=True, said="me")
    assert LineageRecord.decode(record.encode()) == record
    assert Witness.decode(SEEN.encode()) == SEEN

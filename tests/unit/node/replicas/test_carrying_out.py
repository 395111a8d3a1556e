"""The order in which a replica carries out what its leader's state has made due."""

import asyncio

from data_plane.node.replicas.produce_answers import ProduceOutcome
from data_plane.node.replicas.replica import Replica
from data_plane.replication.effects import Look
from data_plane.replication.opening import NO_EPOCH, Position
from penstock.contract.errors import ErrorCode
from tests.unit.log.batches import made_batch, with_header
from tests.unit.log.miniature import Miniature

from .test_follower_stream import OTHER, REGISTERED, led


class Led:
    """A replica that leads, in sync with one other; everything that it does is noted as it does it, with the high
    watermark of its log at that moment."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.outcomes: list[ProduceOutcome] = []
        self.broker = Miniature()
        self.replica = led(self.broker, wrote=self._synced, look_at_in_sync=self._looked_at)
        self.replica.on_append["test"] = lambda replica: self._note("push")
        self.replica.on_commit["test"] = lambda replica: self._note("commit")
        self.replica.on_role["test"] = lambda replica: self._note("role")
        self.done.clear()

    def _note(self, what: str) -> None:
        self.done.append((what, self.replica.log.high_watermark))

    def _synced(self, replica: Replica, size: int) -> None:
        self._note("sync")

    def _looked_at(self, replica: Replica, look: Look) -> None:
        if hasattr(self, "replica"):
            self._note("look")

    def _answered(self, outcome: ProduceOutcome) -> None:
        self.outcomes.append(outcome)
        self._note("answer" if outcome.error == ErrorCode.OK else "unknown")

    def produce(self, acks: int, batches: int = 1) -> None:
        batch, header = with_header(made_batch(2, 40))
        for _ in range(batches):
            self.replica.produce(
                batch, header, acks=acks, claimed_epoch=1, principal=5, answer=self._answered
            )

    def sync(self) -> None:
        """One round of the committer."""
        self.broker.commit(raise_watermark=False)
        self.replica.became_durable()

    def other_opens(self) -> None:
        leading = self.replica.leading
        assert leading is not None
        leading.follower_opened(
            OTHER, REGISTERED, 1, Position(log_end_offset=0, durable_end_offset=0, last_epoch=NO_EPOCH), 0,
            handle=1, leader_epoch=1, partition_epoch=leading.record.partition_epoch, registered_epoch=REGISTERED,
            epoch_lookup=lambda epoch: (epoch, 0), stored_from=0,
        )  # fmt: skip
        self.replica.carry_out()

    def other_holds(self) -> None:
        """All there is now."""
        leading, end = self.replica.leading, self.replica.log.log_end_offset
        assert leading is not None
        assert leading.follower_acked(OTHER, REGISTERED, end, end, 0, handle=1, leader_epoch=1)
        self.replica.carry_out()

    def take_done(self) -> list[tuple[str, int]]:
        done, self.done = [one for one in self.done if one[0] != "look"], []
        return done


def test_a_batch_is_written_synced_pushed_committed_and_answered_in_that_order() -> None:
    one = Led()
    one.other_opens()
    one.take_done()
    one.produce(acks=-1)
    assert one.take_done() == [("sync", 0), ("push", 0)]
    one.sync()
    assert one.take_done() == []
    one.other_holds()
    assert one.take_done() == [("answer", 2), ("commit", 2)], "its log says that it is committed"


def test_a_follower_that_holds_it_first_does_not_answer_for_the_leaders_disk() -> None:
    one = Led()
    one.other_opens()
    one.produce(acks=-1)
    one.other_holds()
    assert not one.outcomes
    one.sync()
    assert [outcome.base_offset for outcome in one.outcomes] == [0]


def test_the_leaders_acknowledgement_waits_for_its_disk_and_for_no_other_replica() -> None:
    one = Led()
    one.produce(acks=1)
    assert not one.outcomes, "it is written, and a power cut would take it"
    one.sync()
    assert [outcome.error for outcome in one.outcomes] == [ErrorCode.OK]
    assert one.replica.log.high_watermark == 0


def test_without_acknowledgement_a_batch_is_answered_behind_its_way_to_the_disk() -> None:
    one = Led()
    one.produce(acks=0)
    assert one.take_done() == [("sync", 0), ("push", 0), ("answer", 0)]


def test_a_leader_epoch_is_in_the_log_when_the_role_is_told() -> None:
    one = Led()
    replica, record = one.replica, one.replica.record
    assert record is not None
    replica.rest()
    seen: list[int] = []
    replica.on_role["epoch"] = lambda replica: seen.append(replica.log.last_epoch)
    replica.lead(record.changed(leader_epoch=2))
    assert seen == [2]


def test_at_the_end_of_its_epoch_what_is_due_is_applied_and_the_rest_unknown() -> None:
    one = Led()
    one.other_opens()
    one.produce(acks=1)
    one.produce(acks=-1)
    one.broker.commit(raise_watermark=False)  # durable, and the replica has not heard of it yet
    one.take_done()
    one.replica.rest()
    assert one.take_done() == [("answer", 0), ("unknown", 0), ("role", 0)]
    assert [outcome.error for outcome in one.outcomes] == [ErrorCode.OK, ErrorCode.OUTCOME_UNKNOWN]


def test_many_answers_are_spread_over_turns_and_none_is_left_out() -> None:
    one = Led()
    many = 1_200

    async def story() -> list[int]:
        one.produce(acks=1, batches=many)
        one.sync()
        answered = [len(one.outcomes)]
        while answered[-1] < many and len(answered) < many:
            await asyncio.sleep(0)
            answered.append(len(one.outcomes))
        return answered

    answered = asyncio.run(story())
    assert answered == [500, 1_000, many]
    assert [outcome.base_offset for outcome in one.outcomes] == list(range(0, 2 * many, 2))


def test_what_comes_again_is_answered_once_it_is_committed() -> None:
    one = Led()
    one.other_opens()
    batch, header = with_header(made_batch(2, 40, producer_id=9, epoch=0, sequence=0))
    for _ in range(2):
        one.replica.produce(batch, header, acks=-1, claimed_epoch=1, principal=5, answer=one._answered)
    one.sync()
    assert not one.outcomes
    one.other_holds()
    assert [(outcome.base_offset, outcome.duplicate) for outcome in one.outcomes] == [(0, False), (0, True)]

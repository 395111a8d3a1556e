"""A producer among brokers that stall, die, move, refuse and answer late: exactly once, in order, honest."""

from __future__ import annotations

import os
from random import Random

import pytest

from penstock.client.producing.producer import ProducerCore
from penstock.contract.errors import Belief, ErrorCode, PenstockError
from tests.unit.client.runner import Runner, SyncDelivery

SEEDS = 3_000 if os.environ.get("FULL") else 800
PARTITIONS = 3
BROKERS = 3
_REFUSALS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.THROTTLED,
    ErrorCode.LEADER_NOT_READY,
    ErrorCode.DISK_FULL,
    ErrorCode.SHUTTING_DOWN,
    ErrorCode.FORBIDDEN,
    ErrorCode.INTERNAL,
)


class Run:
    """One seed: a random life of a producer, then a healed cluster."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.runner = Runner(BROKERS, seed)
        self.cluster = self.runner.cluster
        self.cluster.create("t", PARTITIONS)
        self.sent: list[tuple[int, bytes, SyncDelivery]] = []
        draw = self.random
        self.idempotent = draw.random() < 0.85
        self.producer: ProducerCore = self.runner.producer(
            linger_ms=draw.choice([0, 0, 1, 5]),
            batch_messages=draw.choice([1, 2, 5]),
            compression=draw.choice(["none", "zstd"]),
            delivery_timeout_ms=draw.choice([300, 1_000, 5_000, 60_000]),
            max_attempts=draw.choice([None, None, None, 2, 4]),
            idempotent=self.idempotent,
            buffer_bytes=1 << 24,
        )
        self.producer.route("t")
        self.runner.run(0)

    def live(self, steps: int) -> None:
        acts = [self._send] * 8 + [self._wait] * 5 + [self._move, self._silence, self._wake, self._break]
        acts += [self._kill, self._revive, self._refuse, self._apply_unsaid, self._haunt, self._forget]
        acts += [self._answer_late, self._answer_twice]
        if self.random.random() < 0.5:
            calm = self.random.choice(acts[13:])
            acts = [act for act in acts if act != calm]
        for _ in range(steps):
            self.random.choice(acts)()

    def heal(self) -> None:
        for broker in range(BROKERS):
            self.runner.down.pop(broker, None)
            self.runner.answer_withheld(broker)
            self.cluster.registered[broker] = self.cluster.brokers[broker]
        self.cluster.refusals.clear()
        self.cluster.applied_unsaid = 0
        self.cluster.changed()
        self._haunt()
        self.producer.close_batches()
        self.runner.run(130_000)
        self._haunt()

    # ---- what happens -------------------------------------------------------------------------------------

    def _send(self) -> None:
        for _ in range(self.random.randrange(1, 5)):
            partition = self.random.randrange(PARTITIONS)
            value = b"%d" % len(self.sent)
            self.sent.append(
                (partition, value, self.runner.send(self.producer, "t", value, partition=partition))
            )

    def _wait(self) -> None:
        self.runner.run(self.random.choice([0, 1, 5, 20, 100, 700, 3_000]))

    def _move(self) -> None:
        self.cluster.move("t", self.random.randrange(PARTITIONS), self.random.randrange(BROKERS))

    def _silence(self) -> None:
        self.cluster.silent[self.random.randrange(BROKERS)] = None

    def _wake(self) -> None:
        self.runner.answer_withheld(self.random.randrange(BROKERS))

    def _break(self) -> None:
        self.runner.lose_streams(self.random.randrange(BROKERS))

    def _kill(self) -> None:
        broker = self.random.randrange(BROKERS)
        if len(self.cluster.registered) > 1 and broker in self.cluster.registered:
            self.runner.lose_streams(broker)
            self.runner.down[broker] = None
            if self.random.random() < 0.7:
                self.cluster.unregister(broker)

    def _revive(self) -> None:
        broker = self.random.randrange(BROKERS)
        self.runner.down.pop(broker, None)
        self.cluster.registered[broker] = self.cluster.brokers[broker]
        self.cluster.changed()

    def _refuse(self) -> None:
        code = self.random.choice(_REFUSALS)
        self.cluster.refusals += [(code, code.name.lower())] * self.random.randrange(1, 4)

    def _apply_unsaid(self) -> None:
        self.cluster.applied_unsaid += 1

    def _haunt(self) -> None:
        self.runner.let_ghosts_in()

    def _answer_late(self) -> None:
        """The answers of attempts whose stream is gone arrive all the same, and say nothing of later attempts."""
        self.runner.let_ghosts_in(heard=True)

    def _answer_twice(self) -> None:
        self.runner.answer_again()

    def _forget(self) -> None:
        if self.random.random() < 0.2:
            self.cluster.topics["t"].partitions[self.random.randrange(PARTITIONS)].producers.clear()
            self.forgot = True

    forgot = False

    # ---- what must hold -----------------------------------------------------------------------------------

    def check(self) -> None:
        logs = [partition.values() for partition in self.cluster.topics["t"].partitions]
        for partition, value, delivery in self.sent:
            times = logs[partition].count(value)
            assert delivery.done(), f"{value!r} has no outcome after everything healed"
            error = delivery.error
            if error is None:
                receipt = delivery.receipt()
                assert times >= 1, f"{value!r} was acknowledged and is not there"
                assert logs[partition][receipt.offset] == value, (
                    f"{value!r} is not at offset {receipt.offset}"
                )
            else:
                assert isinstance(error, PenstockError)
                if error.belief is Belief.NOT_APPLIED:
                    assert times == 0, f"{value!r} failed for certain ({error!r}) and is there"
            if self.idempotent and not self.forgot:
                assert times <= 1, f"{value!r} is there {times} times"
        assert self.producer.accumulator.buffered_bytes == 0, "what has an outcome takes no room"
        if self.idempotent and not self.forgot:
            for log in logs:
                numbers = [int(value or b"") for value in log]
                assert numbers == sorted(numbers), f"not in send order: {numbers}"


@pytest.mark.parametrize("block", range(10))
def test_every_life_of_a_producer_ends_in_exactly_once_in_order(block: int) -> None:
    only = os.environ.get("SEED")
    seeds = [int(only)] if only else range(block * SEEDS // 10, (block + 1) * SEEDS // 10)
    for seed in seeds:
        run = Run(seed)
        try:
            run.live(60)
            run.heal()
            run.check()
        except Exception as failure:
            failure.add_note(f"repeat: SEED={seed} .venv/bin/pytest -x {__file__}")
            raise

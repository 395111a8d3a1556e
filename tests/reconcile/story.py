"""The quarter: what happens on which day, and how it is billed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from billing import period_actions, price_actions, terms_actions
from billing import tasks as billing_tasks
from billing.models import Cut, Invoice
from control_plane.audit.actor import system
from control_plane.brokers import client as brokers
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from control_plane.outbox.registry import Delivered
from control_plane.reconciliation import purging
from data_plane.contract import admin_pb2 as admin
from data_plane.contract import usage_pb2 as usage
from payments import actions as payment_actions
from payments import sending
from payments import tasks as payment_tasks
from payments.models import Receivable
from payments.sending import KIND_RECEIVABLE
from penstock.records.cut import cut_sha256
from spark_usage import datasets
from tenants import observed
from tenants.actions import create_tenant
from tenants.closing import actions as closing
from tenants.models import Tenant
from tests.reconcile import kills
from tests.reconcile.clock import Clock, day, ms
from tests.reconcile.comparing import waiting_micro
from tests.reconcile.folding import Folds, job
from tests.reconcile.oracle import CENT, Ledger
from tests.reconcile.quarter import BEGINS, BOOKS, BOOKS_CHANGE, ENDS, LEAP_DAY
from tests.reconcile.stripe_apart import StripeApart
from tests.reconcile.truth import Partition, Usage

ACTOR = system("reconcile")
KINDS = (usage.PERIODIC, usage.LEADER_CHANGE, usage.HOURLY)
CLOSED_DAY = day(2024, 2, 14)
CLOSES, REOPENS = timedelta(hours=10), timedelta(hours=16)
"""When on that day a tenant is closed, and reopened."""
ROUNDS_MAX = 20
STAGES = 3
"""In which Spark is killed for each round: five rounds have all twelve of them."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Customer:
    """A tenant and its logs. `discounts`: from which moment on which one holds, in basis points."""

    row: Tenant
    partitions: list[Partition]
    discounts: list[tuple[datetime, int]] = field(default_factory=list)
    begins: datetime = BEGINS
    """The running period."""
    binned: list[Partition] = field(default_factory=list)
    """Partitions whose topics are in the recycle bin."""

    def discount_at(self, moment: datetime) -> int:
        return next((points for since, points in reversed(self.discounts) if since <= moment), 0)


class Brokers:
    """They answer cuts from the logs; now and then a partition has no leader. What they say comes into `__usage`."""

    def __init__(self, random: Random, customers: list[Customer]) -> None:
        self._random = random
        self._customers = customers

    def cut(self, cut: str, tenant: str, end_ms: int, **_: Any) -> admin.CutResponse:
        ends = [
            partition.cut_end(end_ms)
            for customer in self._customers
            if customer.row.public_id == tenant
            for partition in customer.partitions
        ]
        without = self._random.randrange(len(ends)) if self._random.random() < 0.2 else -1
        answer = admin.CutResponse(
            readings=[
                admin.CutReading(
                    topic_id=end.where.topic_id,
                    partition=end.where.partition,
                    log_generation=end.log_generation,
                    end_offset=end.end_offset,
                    accepted_ms=end.accepted_ms,
                    messages=end.messages,
                    stored_bytes=end.bytes,
                    error=11 if number == without else 0,
                    message="it has no leader" if number == without else "",
                )
                for number, end in enumerate(ends)
            ]
        )
        if without < 0:
            answer.sha256 = cut_sha256(tenant, cut, end_ms, ends)
        return answer


@dataclass(slots=True)
class Story:
    """`short`: no process is killed, and the pipeline has one round, at the end. `batches`: of a partition on a day, at
    most.
    """

    random: Random
    folder: Path
    clock: Clock
    stripe: StripeApart
    folds: Folds
    say: Say
    short: bool
    batches: int
    customers: list[Customer] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    usage: Usage = field(init=False)
    kills: int = 0
    spark_kills: int = 0
    _cuts_said: set[str] = field(default_factory=set)
    _rounds: int = 0
    _stages: list[str] = field(default_factory=lambda: [one.name for one in datasets.ALL])

    def __post_init__(self) -> None:
        self.usage = Usage(self.random)

    def run(self) -> None:
        """From the first day to the last payment."""
        price_actions.publish_price_book(
            ACTOR, document=BOOKS[0], effective_from=price_actions.BEGINNING, now=self.clock.now()
        )
        steady, discounted, again = (
            self._customer(name, topics) for name, topics in (("steady", 2), ("discounted", 1), ("again", 1))
        )
        today = BEGINS
        while today < ENDS:
            self._day(today)
            match (today.month, today.day):
                case (1, 25):
                    self._at(today + timedelta(hours=13))
                    closing.close(ACTOR, again.row)
                case (2, 2):
                    # Messages of January are lost after they were billed.
                    self._lose(steady, below=day(2024, 1, 31))
                case (2, 10):
                    self._at(today + timedelta(hours=23))
                    price_actions.publish_price_book(
                        ACTOR, document=BOOKS[1], effective_from=BOOKS_CHANGE, now=self.clock.now()
                    )
                case (2, 12):
                    self._discount(discounted, today + timedelta(hours=23, minutes=10), 1_000)
                    self._discount(discounted, today + timedelta(hours=23, minutes=50), 2_500)
                case (2, 14):
                    self._close_and_reopen(steady, today)
                case (2, 18):
                    self._put_into_the_bin(steady)
                case (2, 20):
                    self._restore(steady, "restored")
                case (2, 28):
                    self._purge(again)
                case (2, 29):
                    # Midnight in Auckland was at eleven: an operator closes a period there. Each kill takes a minute.
                    self._at(today + timedelta(hours=12))
                    self._close(discounted, today + timedelta(hours=11))
                    self._at(today + timedelta(hours=23))
                    made = self._customer("again", 1)
                    self._messages(made.partitions, self.clock.now(), today + timedelta(days=1))
                case (3, 3):
                    self._lose(discounted, below=day(2024, 2, 28))
                case _:
                    pass
            today += timedelta(days=1)
            if today.day == 1:
                self._month_ends(today)
        self._settle()

    def _customer(self, name: str, topics: int) -> Customer:
        row = create_tenant(ACTOR, name=name)
        partitions = [
            Partition(row.public_id, f"topic-{topic}", self.random.randbytes(16), number, self.usage.told)
            for topic in range(topics)
            for number in range(2)
        ]
        made = Customer(row, partitions, begins=price_actions.tenant_begins(row))
        self.customers.append(made)
        return made

    # -- days -----------------------------------------------------------------------------------------

    def _day(self, today: datetime) -> None:
        tomorrow = today + timedelta(days=1)
        self._at(today)
        for customer in self.customers:
            if customer.row.name == "again" and today >= day(2024, 1, 25) and customer.begins < LEAP_DAY:
                continue
            there = [partition for partition in customer.partitions if partition not in customer.binned]
            if customer.row.name == "steady" and today == CLOSED_DAY:
                self._messages(there, today, today + CLOSES)
                self._messages(there, today + REOPENS, tomorrow)
            else:
                self._messages(there, today, tomorrow)

    def _close_and_reopen(self, customer: Customer, today: datetime) -> None:
        """Within a month, with rounds of the worker in between: the period that runs goes on."""
        self._at(today + CLOSES)
        closing.close(ACTOR, customer.row)
        customer.row.refresh_from_db()
        observed.note_delivered(
            Tenant, customer.row.public_id, Delivered(generation=customer.row.generation, revision=1)
        )
        self._step("closed tenants", purging.drive_closed)
        self._after_closing()
        self._at(today + REOPENS)
        closing.reopen(ACTOR, customer.row)
        self.say(f"{customer.row.name} was closed and is open again")

    def _put_into_the_bin(self, customer: Customer) -> None:
        """Its first topic: nothing is written to it, and its brokers say once more what it has."""
        first = customer.partitions[0].topic_id
        customer.binned = [partition for partition in customer.partitions if partition.topic_id == first]
        for partition in customer.binned:
            partition.look(usage.LEADER_CHANGE)

    def _restore(self, customer: Customer, name: str) -> None:
        """Under another name, which its brokers say from now on; what they said before may come later."""
        for partition in customer.binned:
            partition.topic = name
            partition.look(usage.LEADER_CHANGE)
        customer.binned = []
        self.say(f"{customer.row.name}: a topic is restored as {name}")

    def _messages(self, partitions: list[Partition], begins: datetime, ends: datetime) -> None:
        first, after = ms(begins) + 1, ms(ends)
        for partition in partitions:
            # The last millisecond of a day, and its first one, are of their days.
            edges = [first, after - 1] if self.random.random() < 0.5 else []
            times = [self.random.randrange(first, after) for _ in range(self.random.randrange(self.batches))]
            for at in sorted(edges + times):
                messages, size = self.random.randrange(1, 50), self.random.randrange(61, 9_000)
                partition.append(at, messages, size, self.random.randrange(1, 4))
                if self.random.random() < 0.4:
                    partition.look(self.random.choice(KINDS))

    def _at(self, moment: datetime) -> None:
        if moment > self.clock.now():
            self.clock.to(moment)

    def _lose(self, customer: Customer, *, below: datetime) -> None:
        partition = customer.partitions[0]
        partition.lose(len(partition.batches) - partition.below(ms(below)))
        self.say(f"{customer.row.name}: messages since {below:%d %B} are lost")

    def _discount(self, customer: Customer, at: datetime, points: int) -> None:
        self._at(at)
        terms_actions.change_terms(
            ACTOR,
            customer.row.public_id,
            terms={
                "discounts": [
                    {
                        "id": f"part-{points}",
                        "basis_points": points,
                        "amount_micro": 0,
                        "currency": "",
                        "meters": [],
                        "from_ms": ms(BEGINS),
                        "until_ms": ms(ENDS),
                        "reason": "a year's promise",
                    }
                ],
                "credits": [],
                "tax": None,
            },
            price_book_sha256=None,
            now=self.clock.now(),
        )
        customer.discounts.append((self.clock.now(), points))

    def _purge(self, customer: Customer) -> None:
        """Its name is free when its grace period is over and its last month is billed."""
        self._at(customer.row.purge_at or self.clock.now())
        customer.row.refresh_from_db()
        assert customer.row.purge_at is not None
        self._at(customer.row.purge_at)
        closing.purge(ACTOR, customer.row)
        customer.row.refresh_from_db()

    # -- billing --------------------------------------------------------------------------------------

    def _month_ends(self, month: datetime) -> None:
        """The day's first seconds: periods end, brokers answer, readings are folded, and some come too late."""
        self.say(f"{month - timedelta(days=1):%B %Y} ends")
        self._at(month + timedelta(seconds=5))
        open_ones = [one for one in self.customers if one.row.purged_at is None]
        for customer in open_ones:
            self._owes(customer, month)
        self._step("bill run", billing_tasks.bill_run)
        self._after_closing()

    def _close(self, customer: Customer, end: datetime) -> None:
        self._owes(customer, end)
        self._step(
            "close a period",
            partial(period_actions.close_period, ACTOR, customer.row.public_id, end=end),
        )
        self._after_closing()

    def _owes(self, customer: Customer, end: datetime) -> None:
        begins = customer.begins
        self.ledger.close(
            customer.row.public_id,
            customer.partitions,
            ms(end),
            BOOKS[begins >= BOOKS_CHANGE],
            customer.discount_at(begins),
        )
        customer.begins = end

    def _after_closing(self) -> None:
        self._brokers_answer()
        if not self.short:
            self._fold(all_of_it=False)
        self._step("bill run", billing_tasks.bill_run)
        self.stripe.fail(self.random.randrange(2**32), 12)
        self._pay(2)

    def _settle(self) -> None:
        """What came late is there, and the faults end."""
        self.say("what was late arrives")
        self._fold(all_of_it=True)
        for _ in range(ROUNDS_MAX):
            self._step("bill run", billing_tasks.bill_run)
            if not Invoice.objects.filter(status=Invoice.Status.DRAFT).exists():
                break
        self.say("invoices are paid")
        self._pay(1)
        for _ in range(ROUNDS_MAX):
            # Longer than any pause after a fault. What Stripe's webhooks would say is asked for.
            self.clock.on(hours=7)
            self.stripe.heal()
            for row in Receivable.objects.order_by("pk"):
                with payment_actions.locked(row.public_id) as locked:
                    payment_actions.tell_stripe(locked)
            self._pay(1)
            if (
                self.stripe.collected_cents() * CENT + sum(waiting_micro().values())
                == self.ledger.net_micro()
            ):
                break

    def _brokers_answer(self) -> None:
        for _ in range(ROUNDS_MAX):
            self._step("cuts are delivered", partial(self._deliver, "cut"))
            if not Delivery.objects.filter(kind="cut", delivered_at=None).exists():
                break
        for cut in Cut.objects.exclude(delivered_at=None).select_related("tenant").order_by("pk"):
            if cut.public_id not in self._cuts_said:
                self._cuts_said.add(cut.public_id)
                for customer in self.customers:
                    if customer.row.pk == cut.tenant_id:
                        for partition in customer.partitions:
                            partition.say_cut(cut.public_id, ms(cut.period_end))

    def _fold(self, *, all_of_it: bool) -> None:
        self._rounds += 1
        self.usage.store(ms(self.clock.now()), all_of_it=all_of_it)
        one = job(self.folder / "datasets", self.usage.stored, self.usage.ends)
        jobs = self.folder / f"jobs-{self._rounds}.json"
        if not self.short:
            for data_set in self._stages[:STAGES]:
                self.spark_kills += self.folds.killed(jobs, one, data_set)
            self._stages = self._stages[STAGES:] + self._stages[:STAGES]
        self.folds.do(jobs, [one])
        self.say(f"round {self._rounds}: {len(self.usage.stored)} usage records")

    def _pay(self, rounds: int) -> None:
        for _ in range(rounds):
            self._step("payments", payment_tasks.payment_round)
            for _ in range(ROUNDS_MAX):
                self._step("receivables are delivered", partial(self._deliver, KIND_RECEIVABLE))
                waiting = Delivery.objects.filter(kind=KIND_RECEIVABLE, delivered_at=None)
                if not waiting.exists():
                    break

    def _deliver(self, kind: str) -> None:
        for object_id in list(
            Delivery.objects.filter(kind=kind, delivered_at=None)
            .order_by("pk")
            .values_list("object_id", flat=True)
        ):
            delivery.deliver(kind, object_id)
        if kind == KIND_RECEIVABLE:
            sending.send_next()

    def _step(self, name: str, step: Callable[[], object]) -> None:
        """One task of the worker, which is killed a few times; what one had claimed is free again after the pause."""
        pause = partial(self.clock.on, minutes=1)
        self.kills += kills.until_done(self.random, step, killed=not self.short, pause=pause)
        pause()


@contextmanager
def told_by(story: Story) -> Iterator[None]:
    """The story's brokers are the control plane's."""
    answering = Brokers(story.random, story.customers)
    with mock.patch.object(brokers, "client", lambda: answering):
        yield

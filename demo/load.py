"""The demo's load on a service that runs: flights as messages of sixteen tenants, metered, billed, proven, paid."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from demo import bills
from demo.audit import audit
from demo.bills import Bill, Verdict, quantity_of
from demo.limited import MESSAGES, stop_by_budget
from demo.payment import CARRIER, STAND_IN, Till
from demo.plan import ALL, Plan
from demo.reach import ca_file
from demo.stages import Stages
from demo.summary import Summary
from demo.tenants import Tenant, sign_up_all
from demo.traffic import BrokerHands, Talker, TrafficFailed, Victim
from penstock.cli.output import Bar, print_table, say
from penstock.rest.client import RestClient
from penstock.rules.rating import grouped_amount

_KILL_AT, _START_AT = 0.35, 0.6
"""Parts of the flights that are sent when the broker is killed, and when it is started again."""
_READY_S = 180.0
_PRODUCE_S = 240.0
"""Beyond the time that producing takes by its pace."""
_READ_S = 60.0
_METERED_S = 60.0
_DELIVERED_S = 11.0
"""Brokers tell every 10 s what was delivered; the cuts come after that, and Spark reads all of it in one round."""
_FORGOTTEN_S = 12.0
"""A killed broker may not have written the usage of this time before its end: ten seconds, and the time to write."""
_POLL_S = 0.1


class ClockPassed(TrafficFailed):
    """The service was ready after its clock had shown the moment that was asked for."""


class Target(BrokerHands, Protocol):
    """A service that runs."""

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """host:port of client listeners."""

    @property
    def api_url(self) -> str: ...

    @property
    def datasets(self) -> Path: ...

    @property
    def operator_token(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the load came to."""

    summary: Summary
    disagreements: list[str]
    """Everything that does not agree; empty when all does."""


class Load:
    """One run of the load; its files are in `folder`."""

    def __init__(self, folder: Path, seconds: float, stages: Stages) -> None:
        """`seconds`: producing takes this at least."""
        self.till: Till | None = None
        """Where one tenant's invoices are paid, if anywhere."""
        self._folder = folder
        self._seconds = seconds
        self._stages = stages
        self._begin_at = 0.0
        self._total = 0
        self._read_at: list[tuple[float, int]] = []
        """(monotonic seconds, flights that the members had been given) while messages flow."""

    def producers(self, flights: int | None, carriers: int | None = None) -> Talker:
        """The producing process, which begins to read the flights: as many as that, or all, of so many carriers."""
        wanted = [ALL if most is None else str(most) for most in (flights, carriers)]
        return Talker("demo.produce", wanted, self._folder / "produce.log")

    def sign_up(self, producers: Talker, target: Target) -> list[Tenant]:
        """A tenant for each carrier. Raises `TrafficFailed` and what the service refuses with."""
        stage = self._stages.stage
        with stage("flights", "Reading the flights"):
            read = producers.wait("ready", _READY_S, lambda _: None)
        carriers, self._total = list(read["carriers"]), int(read["total"])
        with stage("tenants", f"Signing up {len(carriers)} tenants") as bar:
            tenants = sign_up_all(target.api_url, carriers, lambda done: bar.to(done / len(carriers)))
        if self.till is not None:
            with stage("payment method", "A tenant gets its own prices and saves a payment method"):
                self.till.open(target.api_url, target.operator_token, tenants)
        return tenants

    def run(
        self, producers: Talker, target: Target, tenants: Sequence[Tenant], begin_at: float = 0.0
    ) -> Loaded:
        """Everything from there to the proof of each invoice. `begin_at`, the machine's clock in seconds: not before
        this is the first message sent. Raises `TrafficFailed`, `NotSettled` and what the service refuses with.
        """
        stage, self._begin_at = self._stages.stage, begin_at
        plan = Plan(
            bootstrap=target.bootstrap, tenants=tuple(tenants), total=self._total, seconds=self._seconds
        )
        counted = self._traffic(plan, producers, target)
        with stage("reported", "Brokers report what was delivered"):
            time.sleep(_DELIVERED_S)
        with stage("cuts", "Ending every tenant's period"):
            bills.cut_all(target.api_url, target.operator_token)
        with stage("invoices", "Usage becomes invoices") as bar:
            found = bills.wait_issued(
                target.api_url, tenants, target.datasets, lambda n: bar.to(n / len(tenants), f"{n} tenants")
            )
        with stage("verification", "Proving each invoice from the log") as bar:
            count = sum(len(bill.invoices) for bill in found)
            verdicts = bills.verify_all(
                plan.bootstrap, target.api_url, found, lambda n: bar.to(n / count, f"{n} invoices")
            )
        with stage("log", "Counting the log itself") as bar:
            log = audit(
                plan.bootstrap, tenants, plan.total, lambda n: bar.to(n / plan.total, f"{n:,} messages")
            )
        with stage("metering", "Reading Spark's data set") as bar:
            sums = bills.wait_metered(
                target.datasets,
                tenants,
                plan.total,
                _METERED_S,
                lambda n: bar.to(n / plan.total, f"{n:,} messages"),
            )
        payment = None
        if self.till is not None:
            with stage("payment", f"{CARRIER} pays through {STAND_IN}") as bar:
                payment = self.till.wait_paid(target.api_url, found, lambda n: bar.to(0.0, f"{n} paid"))
        with stage("budget", "A budget stops a tenant") as bar:
            stopped = stop_by_budget(
                plan.bootstrap,
                target.api_url,
                tenants[0],
                lambda n: bar.to(n / MESSAGES, f"{n:,} of {MESSAGES:,} messages"),
            )
        summary = Summary(
            tenants=_tenants_there(target.api_url, target.operator_token, tenants),
            produced=int(counted["produced"]),
            consumed_distinct=int(counted["distinct"]),
            duplicates_in_log=log.duplicates,
            order_violations=log.order_violations,
            metered_messages=sums.get("messages_in", 0),
            invoiced_messages=sum(bill.quantity("messages_in") for bill in found),
            metered_bytes=sums.get("bytes_in", 0),
            log_bytes=log.bytes,
            invoiced_by_month=_by_month(found),
            invoiced_bytes=sum(bill.quantity("bytes_in") for bill in found),
            delivered_received=int(counted["received"]),
            delivered_metered=sums.get("messages_out", 0),
            delivered_waived_max=int(counted["waived_max"]),
            invoices=sum(len(bill.invoices) for bill in found),
            verified_invoices=sum(verdict.proven for verdict in verdicts),
            broker_killed=int(counted["broker_killed"]),
            acked_before_kill=int(counted["acked_before_kill"]),
            acked_while_down=int(counted["acked_while_down"]),
            leaders_moved=int(counted["leaders_moved"]),
            budget_messages=MESSAGES,
            budget_sent=stopped.sent,
            budget_stopped=stopped.at_its_amount,
            payment=payment,
            seconds=self._stages.seconds,
        )
        summary.write(self._folder / "summary.json")
        _print_bills(found, verdicts)
        if payment is not None:
            say(f"Payment: {payment}; no money moved.")
        wrong = summary.disagreements(plan.total, len(tenants))
        wrong += [f"{v.invoice}: {problem}" for v in verdicts for problem in v.problems[:3]]
        return Loaded(summary=summary, disagreements=wrong)

    def _traffic(self, plan: Plan, producers: Talker, target: Target) -> dict[str, int]:
        """Produce and read everything, with a broker killed on the way; the counts by name."""
        plan_file = self._folder / "plan.json"
        plan.write(plan_file)
        stage = self._stages.stage
        victim = Victim(target)
        with Talker("demo.consume", [str(plan_file)], self._folder / "consume.log") as members:
            with stage("groups", "The groups' members join") as bar:
                members.wait("ready", _READY_S, lambda report: _assigned(bar, report))
            if self._begin_at:
                wait_for_clock(self._begin_at, self._stages)
            with stage("messages", f"Producing and reading {plan.total:,} messages") as bar:
                producers.begin(plan_file)
                self._wait_sent(producers, members, plan, _KILL_AT, bar, "")
                victim.kill()
                waived_max = self._read_since(time.monotonic() - _FORGOTTEN_S, members)
                acked_before = producers.count("acked")
                moved = victim.leaders_moved()
                self._wait_sent(producers, members, plan, _START_AT, bar, f"broker {victim.number} killed")
                acked_down = producers.count("acked") - acked_before
                victim.start_again()
                produced = producers.wait(
                    "done",
                    plan.seconds + _PRODUCE_S,
                    lambda report: _flown(bar, producers, members, plan, ""),
                )
                if produced["failed"]:
                    raise TrafficFailed(
                        f"{produced['failed']:,} messages failed, first: {produced['failure']}"
                    )
            with stage("reading", "The groups read to the end") as bar:
                deadline = time.monotonic() + _READ_S
                while members.count("distinct") < plan.total and time.monotonic() < deadline:
                    bar.to(members.count("distinct") / plan.total)
                    time.sleep(_POLL_S)
                read = members.end()
                if read["unknown"]:
                    raise TrafficFailed(
                        f"{read['unknown']:,} messages were read that the demo did not produce"
                    )
        return {
            "produced": int(produced["acked"]),
            "distinct": int(read["distinct"]),
            "received": int(read["received"]),
            "waived_max": waived_max,
            "broker_killed": victim.number,
            "acked_before_kill": acked_before,
            "acked_while_down": acked_down,
            "leaders_moved": moved,
        }

    def _wait_sent(
        self, producers: Talker, members: Talker, plan: Plan, part: float, bar: Bar, note: str
    ) -> None:
        """Wait until that part of the flights is acknowledged."""
        deadline = time.monotonic() + plan.seconds + _PRODUCE_S
        while producers.count("acked") < part * plan.total:
            _flown(bar, producers, members, plan, note)
            self._read_at.append((time.monotonic(), members.count("distinct")))
            if time.monotonic() > deadline:
                raise TrafficFailed(f"only {producers.count('acked'):,} messages were acknowledged in time")
            time.sleep(_POLL_S)

    def _read_since(self, then: float, members: Talker) -> int:
        """How many flights the members were given since that moment, at least."""
        return members.count("distinct") - max(
            (count for moment, count in self._read_at if moment <= then), default=0
        )


def wait_for_clock(begin_at: float, stages: Stages) -> None:
    """Until the machine's clock shows it. Raises `ClockPassed`."""
    early_s = begin_at - time.time()
    if early_s < 0:
        raise ClockPassed(
            f"the first message could be sent {-early_s:.0f} s after the service's clock showed"
            " the moment that was asked for; start again when the machine is less busy"
        )
    with stages.stage("clock", "Waiting for the service's clock"):
        time.sleep(early_s)


def _assigned(bar: Bar, report: dict[str, Any]) -> None:
    wanted = int(report.get("wanted", 0))
    if wanted:
        bar.to(int(report["assigned"]) / wanted, f"{report['assigned']} of {wanted} partitions")


def _flown(bar: Bar, producers: Talker, members: Talker, plan: Plan, note: str) -> None:
    acked, distinct = producers.count("acked"), members.count("distinct")
    bar.to(acked / plan.total, f"{acked:,} acknowledged, {distinct:,} read" + (f", {note}" if note else ""))


def _tenants_there(api_url: str, operator_token: str, tenants: Sequence[Tenant]) -> int:
    """How many of them the control plane knows."""
    wanted = {tenant.id for tenant in tenants}
    with RestClient(api_url, operator_token, ca_file()) as rest:
        return len({str(item["id"]) for item in rest.items("/v1/tenants")} & wanted)


def _by_month(found: list[Bill]) -> dict[str, int]:
    """Messages on invoices, by the month in which their periods begin."""
    months: dict[str, int] = {}
    for bill in found:
        for invoice in bill.invoices:
            month = str(invoice["period_start"])[:7]
            months[month] = months.get(month, 0) + quantity_of(invoice, "messages_in")
    return dict(sorted(months.items()))


def _print_bills(found: list[Bill], verdicts: list[Verdict]) -> None:
    proven = {verdict.invoice: verdict.proven for verdict in verdicts}
    rows: list[list[object]] = []
    for bill in found:
        invoices = [str(invoice["id"]) for invoice in bill.invoices]
        cost = bill.cost_micro_per_million
        availability = f"{(bill.valid - bill.bad) / bill.valid:.4%}" if bill.valid else "-"
        rows.append(
            [
                bill.tenant.carrier,
                bill.quantity("messages_in"),
                bill.quantity("bytes_in"),
                bill.total,
                "-" if cost is None else grouped_amount(cost, 6),
                availability,
                ", ".join(invoices),
                "proven" if all(proven.get(invoice) for invoice in invoices) else "NOT PROVEN",
            ]
        )
    print_table(
        [
            "tenant",
            "messages",
            "bytes",
            "invoice",
            "cost per million",
            "availability",
            "number",
            "from the log",
        ],
        rows,
        title="What each carrier's flights cost",
    )

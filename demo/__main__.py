"""`make demo`: a whole service on a PostgreSQL and a Redis, a year of flights through it, and the bill proven.

Usage: python -m demo [--once] [--data DIR] [--flights N] [--seconds S].
"""

import os
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from data_plane.broker.clock import OFFSET_VARIABLE
from demo import bills
from demo.audit import audit
from demo.bills import Bill, Verdict, quantity_of
from demo.plan import Plan
from demo.servers import ServerFailed, Servers
from demo.stages import Stages
from demo.summary import Summary
from demo.tenants import Tenant, sign_up_all
from demo.traffic import Talker, TrafficFailed, Victim
from local import guardian
from local.layout import DataDirectory
from local.service import DevService, ServiceUp
from local.service_layout import Backends
from penstock.cli.output import Bar, print_table, say
from penstock.contract.errors import PenstockError
from penstock.private_file import write_private
from penstock.profile_changes import with_profile
from penstock.profiles import PROFILE_FILE
from penstock.rest.client import RestClient
from penstock.rules.rating import shown_amount

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
_OWN_MARK = "penstock-demo"
_LEAD_S = 200.0
"""With a clock of its own: until the first message can be sent, on a busy machine too."""


class Demo:
    """One run in one folder."""

    def __init__(
        self, folder: Path, flights: int | None, seconds: float, clock_start: datetime | None
    ) -> None:
        self._folder = folder.absolute()
        self._clock_start = clock_start
        self._begin_at = 0.0
        """The machine's clock in seconds: not before this is the first message sent."""
        self._read_at: list[tuple[float, int]] = []
        """(monotonic seconds, flights that the members had been given) while messages flow."""
        self._flights, self._seconds = flights, seconds
        self._servers = Servers(self._folder / "servers")
        self._service = DevService(DataDirectory(self._folder / "service"))
        self._stages = Stages()

    def stop(self) -> None:
        """End everything of this folder that runs."""
        if self._service.directory.cluster_file.exists():
            self._service.down(10.0)
        self._servers.stop()

    def clear(self) -> None:
        """Make the folder empty, and only if it is a demo's own."""
        mark = self._folder / _OWN_MARK
        if self._folder.exists() and not mark.exists() and any(self._folder.iterdir()):
            raise click.UsageError(f"{self._folder} holds something else; name another folder with --data.")
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        mark.touch()
        os.environ[PROFILE_FILE] = str(self._folder / "profiles.toml")

    def run(self) -> tuple[Summary, list[str]]:
        """Everything, from nothing; returns the summary and what does not agree in it."""
        wanted = [] if self._flights is None else [str(self._flights)]
        # It reads the flights while the service starts.
        with Talker("demo.produce", wanted, self._folder / "produce.log") as producers:
            return self._run(producers)

    def _run(self, producers: Talker) -> tuple[Summary, list[str]]:
        stage = self._stages.stage
        self._set_clock()
        with stage("servers", "Starting PostgreSQL and Redis") as bar:
            addresses = self._servers.start(lambda name: bar.to(0.5, name))
        with stage("service", "Starting the service") as bar:
            up = self._service.up(
                None,
                _steps(bar),
                backends=Backends(
                    database_url=addresses.database_url, celery_broker_url=addresses.celery_broker_url
                ),
            )
        with stage("flights", "Reading the flights"):
            read = producers.wait("ready", _READY_S, lambda _: None)
        carriers, total = list(read["carriers"]), int(read["total"])
        with stage("tenants", f"Signing up {len(carriers)} tenants") as bar:
            tenants = sign_up_all(up.spec.api_url, carriers, lambda done: bar.to(done / len(carriers)))
        self._write_profiles(up, tenants)
        plan = Plan(
            bootstrap=tuple(broker.client_address for broker in up.cluster.spec.brokers),
            tenants=tuple(tenants),
            total=total,
            seconds=self._seconds,
        )
        counted = self._traffic(plan, producers)
        with stage("reported", "Brokers report what was delivered"):
            time.sleep(_DELIVERED_S)
        datasets = self._service.service.datasets
        with stage("cuts", "Ending every tenant's period"):
            token = self._service.service.operator_token_file.read_text().strip()
            bills.cut_all(up.spec.api_url, token)
        with stage("invoices", "Usage becomes invoices") as bar:
            found = bills.wait_issued(
                up.spec.api_url, tenants, datasets, lambda n: bar.to(n / len(tenants), f"{n} tenants")
            )
        with stage("verification", "Proving each invoice from the log") as bar:
            count = sum(len(bill.invoices) for bill in found)
            verdicts = bills.verify_all(
                plan.bootstrap, up.spec.api_url, found, lambda n: bar.to(n / count, f"{n} invoices")
            )
        with stage("log", "Counting the log itself") as bar:
            log = audit(
                plan.bootstrap, tenants, plan.total, lambda n: bar.to(n / plan.total, f"{n:,} messages")
            )
        with stage("metering", "Reading Spark's data set") as bar:
            sums = bills.wait_metered(
                datasets, tenants, plan.total, _METERED_S, lambda n: bar.to(n / plan.total, f"{n:,} messages")
            )
        summary = Summary(
            tenants=_tenants_there(up.spec.api_url, token, tenants),
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
            seconds=self._stages.seconds,
        )
        summary.write(self._folder / "summary.json")
        _print_bills(found, verdicts)
        self._tell_addresses(up, tenants)
        wrong = summary.disagreements(plan.total, len(carriers))
        wrong += [f"{v.invoice}: {problem}" for v in verdicts for problem in v.problems[:3]]
        return summary, wrong

    def _set_clock(self) -> None:
        """Let the service's clock be such that it shows `clock_start` when the first message is sent."""
        if self._clock_start is not None:
            self._begin_at = time.time() + _LEAD_S
            offset_s = self._clock_start.timestamp() - self._begin_at
            os.environ[OFFSET_VARIABLE] = str(int(offset_s * 1000))

    def _traffic(self, plan: Plan, producers: Talker) -> dict[str, int]:
        """Produce and read everything, with a broker killed on the way; the counts by name."""
        plan_file = self._folder / "plan.json"
        plan.write(plan_file)
        stage = self._stages.stage
        victim = Victim(self._service.cluster)
        with Talker("demo.consume", [str(plan_file)], self._folder / "consume.log") as members:
            with stage("groups", "The groups' members join") as bar:
                members.wait("ready", _READY_S, lambda report: _assigned(bar, report))
            if self._begin_at:
                early_s = self._begin_at - time.time()
                if early_s < 0:
                    raise TrafficFailed(
                        f"the first message could be sent {-early_s:.0f} s after the service's clock showed"
                        f" {self._clock_start}; start again when the machine is less busy"
                    )
                with stage("clock", "Waiting for the service's clock"):
                    time.sleep(early_s)
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

    def _write_profiles(self, up: ServiceUp, tenants: list[Tenant]) -> None:
        """A profile for each tenant, by its carrier, in the demo's own profile file."""
        file = self._folder / "profiles.toml"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        for tenant in tenants:
            fields: dict[str, str | list[str]] = {
                "bootstrap": [broker.client_address for broker in up.cluster.spec.brokers],
                "api_key": tenant.api_key,
                "api_url": up.spec.api_url,
                "tenant": tenant.id,
            }
            text = with_profile(text, tenant.carrier, fields)
        write_private(file, text)
        sign_ins = [f"{tenant.carrier} {tenant.email} {tenant.password} {tenant.id}" for tenant in tenants]
        write_private(self._folder / "sign-in.txt", "\n".join(sign_ins) + "\n")

    def _tell_addresses(self, up: ServiceUp, tenants: list[Tenant]) -> None:
        first = tenants[0]
        say(f"Console: {up.spec.api_url}/  REST interface: {up.spec.api_url}/v1/openapi.json")
        say(f"Brokers: {', '.join(broker.client_address for broker in up.cluster.spec.brokers)}")
        say(
            f"Sign in as {first.email}, password {first.password}; the others stand in {self._folder}/sign-in.txt"
        )
        say(f"Operator's token: {self._service.service.operator_token_file}")
        say(f"Summary: {self._folder}/summary.json")

    def stay(self) -> None:
        """Until Ctrl-C or SIGTERM."""
        say(f"export {PROFILE_FILE}={self._folder}/profiles.toml, then for instance:")
        say("  .venv/bin/penstock --profile UA invoice list")
        say("Everything stays up; Ctrl-C stops it.")
        try:
            while True:
                signal.pause()
        except KeyboardInterrupt:
            pass


def _steps(bar: Bar) -> Any:
    return lambda done, steps, note: bar.to(done / steps, note)


def _assigned(bar: Bar, report: dict[str, Any]) -> None:
    wanted = int(report.get("wanted", 0))
    if wanted:
        bar.to(int(report["assigned"]) / wanted, f"{report['assigned']} of {wanted} partitions")


def _flown(bar: Bar, producers: Talker, members: Talker, plan: Plan, note: str) -> None:
    acked, distinct = producers.count("acked"), members.count("distinct")
    bar.to(acked / plan.total, f"{acked:,} acknowledged, {distinct:,} read" + (f", {note}" if note else ""))


def _tenants_there(api_url: str, operator_token: str, tenants: list[Tenant]) -> int:
    """How many of them the control plane knows."""
    wanted = {tenant.id for tenant in tenants}
    with RestClient(api_url, operator_token) as rest:
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
                "-" if cost is None else shown_amount(cost, 6),
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


@click.command()
@click.option("--once", is_flag=True, help="Stop everything at the end; exit code 0 only if all agrees.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var/demo"),
    show_default=True,
    help="Folder of the demo; what an earlier one left there is stopped and removed.",
)
@click.option("--flights", type=click.IntRange(min=100), help="Only so many flights, evenly chosen.")
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=45.0, show_default=True, help="Producing takes this."
)
@click.option(
    "--clock-start",
    type=click.DateTime(formats=["%Y-%m-%dT%H:%M:%SZ"]),
    help="What the service's clock shows when the first message is sent (UTC), for instance before a month's end.",
)
def main(once: bool, data: Path, flights: int | None, seconds: float, clock_start: datetime | None) -> None:
    """Sixteen carriers' flights of 2013 as messages of sixteen tenants, metered, billed and proven."""
    guardian.guard()
    start = None if clock_start is None else clock_start.replace(tzinfo=UTC)
    demo = Demo(data, flights, seconds, start)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 1
    try:
        demo.clear()
        _, wrong = demo.run()
        for line in wrong:
            say(f"Does not agree: {line}")
        say("All agrees." if not wrong else f"{len(wrong)} things do not agree.")
        status = 1 if wrong else 0
        if not once:
            demo.stay()
    except PenstockError as error:
        say(f"Error: {error.message} [{error.code.name}]\n  {error.remedy}")
    except ServerFailed as error:
        say(f"Error: {error}")
    except KeyboardInterrupt:
        status = 130
    finally:
        say("Stopping everything")
        demo.stop()
    sys.exit(status)


if __name__ == "__main__":
    main()

"""`make demo`: a whole service on a PostgreSQL and a Redis, a year of flights through it, and the bill proven and paid.

Usage: python -m demo [--once] [--data DIR] [--flights N] [--carriers N] [--seconds S].
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
from demo.load import ClockPassed, Load
from demo.machine import ThisMachine
from demo.payment import Till
from demo.servers import ServerFailed, Servers
from demo.stages import Stages
from demo.summary import Summary
from demo.tenants import Tenant
from demo.traffic import Talker
from local import cores, guardian
from local.layout import DataDirectory
from local.service import DevService, ServiceUp
from local.service_layout import Backends
from penstock.cli.output import Bar, say
from penstock.contract.errors import PenstockError
from penstock.private_file import write_private
from penstock.profile_changes import with_profile
from penstock.profiles import PROFILE_FILE

_OWN_MARK = "penstock-demo"
LEADS_S = (110.0, 220.0, 400.0)
"""With a clock of its own: until the first message can be sent, of each attempt. A machine that was too busy for one
starts over with the next.
"""

_INTERVAL_ONCE_S = 600
"""Between two rounds of the pipeline with --once: it is woken where a round is waited for."""


class Demo:
    """One run in one folder."""

    def __init__(
        self,
        folder: Path,
        flights: int | None,
        seconds: float,
        clock_start: datetime | None,
        carriers: int | None = None,
        *,
        once: bool = False,
    ) -> None:
        self._folder = folder.absolute()
        self._clock_start = clock_start
        self._flights = flights
        self._carriers = carriers
        self._interval_s = _INTERVAL_ONCE_S if once else None
        self._seconds = seconds
        self._prepare()

    def _prepare(self) -> None:
        """What a run begins with; nothing has been started."""
        self._servers = Servers(self._folder / "servers")
        self._service = DevService(DataDirectory(self._folder / "service"))
        self._stages = Stages()
        self._load = Load(self._folder, self._seconds, self._stages)

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
        self._prepare()
        os.environ[PROFILE_FILE] = str(self._folder / "profiles.toml")

    def run(self) -> tuple[Summary, list[str]]:
        """Everything, from nothing; returns the summary and what does not agree in it."""
        for lead_s in LEADS_S[:-1]:
            try:
                return self._attempt(lead_s)
            except ClockPassed as passed:
                say(f"{passed.message} Starting over.")
                self.clear()
        return self._attempt(LEADS_S[-1])

    def _attempt(self, lead_s: float) -> tuple[Summary, list[str]]:
        # It reads the flights while the service starts.
        with self._load.producers(self._flights, self._carriers) as producers:
            return self._run(producers, lead_s)

    def _run(self, producers: Talker, lead_s: float) -> tuple[Summary, list[str]]:
        stage = self._stages.stage
        begin_at = self._set_clock(lead_s)
        with stage("servers", "Starting PostgreSQL, Redis and a stand-in for Stripe") as bar:
            addresses = self._servers.start(lambda name: bar.to(0.5, name))
            stripe = self._servers.start_stripe()
        with stage("service", "Starting the service") as bar:
            up = self._service.up(
                None,
                _steps(bar),
                backends=Backends(
                    database_url=addresses.database_url,
                    celery_broker_url=addresses.celery_broker_url,
                    payments=stripe.settings,
                ),
                pipeline_interval_s=self._interval_s,
            )
        self._load.till = Till(stripe)
        target = ThisMachine(self._service, up)
        tenants = self._load.sign_up(producers, target)
        self._write_profiles(up, tenants)
        loaded = self._load.run(producers, target, tenants, begin_at)
        self._tell_addresses(up, tenants)
        return loaded.summary, loaded.disagreements

    def _set_clock(self, lead_s: float) -> float:
        """Let the service's clock be such that it shows `clock_start` when the first message is sent: at what the
        machine's own clock shows then, in seconds; 0 without such a wish.
        """
        if self._clock_start is None:
            return 0.0
        begin_at = time.time() + lead_s
        os.environ[OFFSET_VARIABLE] = str(int((self._clock_start.timestamp() - begin_at) * 1000))
        return begin_at

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
    "--carriers", type=click.IntRange(min=1), help="Only the flights of so many carriers, the largest ones."
)
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=45.0, show_default=True, help="Producing takes this."
)
@click.option(
    "--clock-start",
    type=click.DateTime(formats=["%Y-%m-%dT%H:%M:%SZ"]),
    help="What the service's clock shows when the first message is sent (UTC), for instance before a month's end.",
)
def main(
    once: bool,
    data: Path,
    flights: int | None,
    carriers: int | None,
    seconds: float,
    clock_start: datetime | None,
) -> None:
    """Sixteen carriers' flights of 2013 as messages of sixteen tenants, metered, billed and proven; one pays."""
    guardian.guard()
    cores.choose()
    start = None if clock_start is None else clock_start.replace(tzinfo=UTC)
    demo = Demo(data, flights, seconds, start, carriers, once=once)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 1
    try:
        demo.clear()
        cores.make_for_later(say)
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

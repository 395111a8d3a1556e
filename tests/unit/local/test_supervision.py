"""What has ended is started again, later each time; what a command stopped is not; outputs stay within their bound."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import supervision
from local.layout import Busy, DataDirectory
from local.service import DevService
from local.service_layout import Backends
from local.supervision import (
    BACKOFF_S,
    CALM_S,
    STARTING_S,
    UNANSWERED_S,
    UNHEALTHY_S,
    Health,
    Supervisor,
    shorten,
)
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S, wait_until

CLI = (sys.executable, "-m", "penstock.cli")


class Service:
    """Processes that are only names: those that are there, and those that end as soon as they are started."""

    def __init__(self, path: Path) -> None:
        self.directory = DataDirectory(path)
        self.there: set[str] = set()
        self.hopeless: set[str] = set()
        self.restarted: list[str] = []
        self.busy = False
        self.healths: dict[str, Health | None] = {}
        self.asked: list[str] = []
        self.ended: list[str] = []

    def health(self, name: str) -> Health | None:
        self.asked.append(name)
        return self.healths.get(name, Health())

    def end(self, name: str) -> None:
        self.ended.append(name)
        self.there.discard(name)

    def running(self) -> set[str]:
        return set(self.there)

    def restart(self, name: str) -> None:
        if self.busy:
            raise Busy("another command is changing this cluster")
        self.restarted.append(name)
        if name not in self.hopeless:
            self.there.add(name)

    def reap(self) -> None:
        pass

    def outputs(self) -> list[Path]:
        return [self.directory.supervisor_output_file]


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = Service(tmp_path)
    service.there = {"web", "broker-1"}
    service.directory.want("web", "broker-1")
    return service


def test_what_has_ended_is_started_again_after_a_second_and_both_are_told(service: Service) -> None:
    told: list[str] = []
    supervisor = Supervisor(service, told.append)
    assert supervisor.look(0.0) and told == []
    service.there.discard("web")
    supervisor.look(1.0)
    supervisor.look(1.9)
    assert service.restarted == [] and told == ["web has ended; it is started again in 1 s."]
    supervisor.look(2.0)
    supervisor.look(2.5)
    assert service.restarted == ["web"] and told[1:] == ["web runs again."]


def test_each_start_of_what_ends_at_once_waits_longer_up_to_a_bound(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    service.there.discard("web")
    service.hopeless.add("web")
    starts = []
    for tenth in range(2_000):
        before = len(service.restarted)
        supervisor.look(tenth / 10)
        if len(service.restarted) > before:
            starts.append(tenth / 10)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(starts)]
    assert pauses[: len(BACKOFF_S)] == [*BACKOFF_S[1:], BACKOFF_S[-1]]


def test_what_has_run_for_a_while_is_started_again_at_once_as_the_first_time(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    now = 0.0
    for _ in range(3):
        service.there.discard("web")
        supervisor.look(now)
        supervisor.look(now + BACKOFF_S[0])
        supervisor.look(now + BACKOFF_S[0] + CALM_S)
        now += BACKOFF_S[0] + CALM_S + 1
    assert service.restarted == ["web"] * 3


def test_what_a_command_stopped_stays_down_and_without_anything_wanted_it_is_over(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    service.directory.unwant("broker-1")
    service.there.discard("broker-1")
    assert supervisor.look(0.0) and supervisor.look(100.0)
    assert service.restarted == []
    service.directory.unwant("web")
    assert not supervisor.look(101.0)


ILL = Health(reason='{"healthy": false, "late": {"scheduler": "it has ended"}}')


def looks(supervisor: Supervisor, begin_s: float, end_s: float) -> None:
    """Twice a second, as a supervisor does."""
    for half_second in range(int(begin_s * 2), int(end_s * 2) + 1):
        supervisor.look(half_second / 2)


def test_each_process_is_asked_in_its_turn_whether_it_is_healthy(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    looks(supervisor, 0, 1.5)
    assert service.asked == ["broker-1", "web", "broker-1", "web"]


def test_what_has_not_been_healthy_for_a_while_is_ended_and_started_again(service: Service) -> None:
    told: list[str] = []
    supervisor = Supervisor(service, told.append)
    looks(supervisor, 0, 1)
    service.healths["web"] = ILL
    looks(supervisor, 1.5, UNHEALTHY_S)
    assert service.ended == []
    looks(supervisor, UNHEALTHY_S + 0.5, UNHEALTHY_S + 2.5)
    assert service.ended == ["web"] and told[0].endswith(f"is ended: {ILL.reason}")
    service.healths["web"] = Health()
    looks(supervisor, UNHEALTHY_S + 3, UNHEALTHY_S + 8)
    assert service.restarted == ["web"] and told[-1] == "web runs again."


def test_what_is_healthy_again_in_between_is_left_alone(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    looks(supervisor, 0, 1)
    for begin_s in range(2, 200, 20):
        service.healths["web"] = ILL
        looks(supervisor, begin_s, begin_s + 17.5)
        service.healths["web"] = Health()
        looks(supervisor, begin_s + 18, begin_s + 19.5)
    assert service.ended == []


def test_what_answers_nothing_has_longer_than_what_says_that_it_is_ill(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    looks(supervisor, 0, 1)
    service.healths["broker-1"] = Health(reason="no answer: timed out", answered=False)
    looks(supervisor, 1.5, UNANSWERED_S)
    assert service.ended == []
    looks(supervisor, UNANSWERED_S + 0.5, UNANSWERED_S + 3)
    assert service.ended == ["broker-1"]


def test_the_first_answer_after_a_time_without_one_ends_nothing(service: Service) -> None:
    """A busy machine: what comes first is how long the process had no turn."""
    supervisor = Supervisor(service, lambda line: None)
    looks(supervisor, 0, 1)
    unanswered = Health(reason="no answer: timed out", answered=False)
    service.healths["web"] = unanswered
    looks(supervisor, 1.5, UNHEALTHY_S + 10)
    service.healths["web"] = Health(reason='{"healthy": false, "loop_age_s": 38.2}')
    looks(supervisor, UNHEALTHY_S + 10.5, UNHEALTHY_S + 15)
    assert service.ended == []
    service.healths["web"] = unanswered
    looks(supervisor, UNHEALTHY_S + 15.5, UNANSWERED_S)
    assert service.ended == []
    looks(supervisor, UNANSWERED_S + 0.5, UNANSWERED_S + 3)
    assert service.ended == ["web"]


def test_what_still_starts_has_time_and_not_for_ever(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    service.healths["web"] = ILL
    looks(supervisor, 0, STARTING_S)
    assert service.ended == []
    looks(supervisor, STARTING_S + 0.5, STARTING_S + UNHEALTHY_S + 2)
    assert service.ended == ["web"]


def test_what_somebody_has_paused_is_not_asked_and_stays(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    looks(supervisor, 0, 1)
    service.healths["web"] = None
    looks(supervisor, 1.5, 10 * UNANSWERED_S)
    assert service.ended == []


def test_a_start_waits_for_a_command_that_is_at_work(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    service.there.discard("web")
    service.busy = True
    supervisor.look(0.0)
    supervisor.look(5.0)
    service.busy = False
    supervisor.look(5.5)
    assert service.restarted == ["web"]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    directory = DataDirectory(tmp_path)
    directory.load_or_create(3)
    yield directory
    directory.unwant(*directory.wanted())
    supervision.stop(directory)


@pytest.mark.processes
def test_a_command_that_is_refused_leaves_what_runs_with_a_supervisor(directory: DataDirectory) -> None:
    directory.want("what runs")
    leave_behind = f"supervision.leave_behind(DataDirectory(Path({str(directory.path)!r})))"
    imports = (
        "from pathlib import Path; from local import supervision; from local.layout import DataDirectory"
    )
    subprocess.run([sys.executable, "-c", f"{imports}; {leave_behind}"], check=True, cwd=ROOT)
    wait_until("it is supervised", lambda: supervision.find(directory) is not None)
    up = [*CLI, "dev", "up", "--detach", "--bare", "--brokers", "2", "--data", str(directory.path)]
    refused = subprocess.run(up, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "cannot shrink to 2" in refused.stderr
    assert supervision.find(directory) is not None


@pytest.mark.processes
def test_of_two_supervisors_started_at_once_one_stays(directory: DataDirectory) -> None:
    directory.want("what runs")
    started = [subprocess.Popen(supervision.command(directory), cwd=ROOT) for _ in range(2)]
    wait_until("one has ended", lambda: any(process.poll() is not None for process in started))
    assert sorted(process.poll() is None for process in started) == [False, True]
    assert [process.returncode for process in started if process.poll() is not None] == [0]
    for process in started:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("name", ["worker", "broker-1"])
def test_what_a_command_has_just_stopped_is_not_started_by_a_supervisor_that_was_about_to(
    directory: DataDirectory, name: str
) -> None:
    service = DevService(directory)
    service.service.load_or_create(Backends())
    service.restart(name)
    assert service.running() == set() and not any(output.exists() for output in service.outputs())


def test_an_output_that_has_grown_begins_anew_and_its_writer_goes_on_in_it(tmp_path: Path) -> None:
    file = tmp_path / "web.log"
    with file.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        shorten(file, 100)
        assert file.stat().st_size == 100
        writer.write(b"y")
        shorten(file, 100)
        writer.write(b"z")
    assert file.read_bytes() == b"z"
    assert (tmp_path / "web.log.1").read_bytes() == b"x" * 100 + b"y"
    shorten(tmp_path / "nothing.log", 100)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["web.log", "web.log.1"]

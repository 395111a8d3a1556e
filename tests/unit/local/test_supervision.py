"""What has ended is started again, later each time; what a command stopped is not; outputs stay within their bound."""

import itertools
from pathlib import Path

import pytest

from local.layout import Busy, DataDirectory
from local.supervision import BACKOFF_S, CALM_S, Supervisor, shorten


class Service:
    """Processes that are only names: those that are there, and those that end as soon as they are started."""

    def __init__(self, path: Path) -> None:
        self.directory = DataDirectory(path)
        self.there: set[str] = set()
        self.hopeless: set[str] = set()
        self.restarted: list[str] = []
        self.busy = False

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


def test_a_start_waits_for_a_command_that_is_at_work(service: Service) -> None:
    supervisor = Supervisor(service, lambda line: None)
    service.there.discard("web")
    service.busy = True
    supervisor.look(0.0)
    supervisor.look(5.0)
    service.busy = False
    supervisor.look(5.5)
    assert service.restarted == ["web"]


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

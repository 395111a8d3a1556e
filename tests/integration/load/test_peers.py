"""Each system of the comparison starts, and its client does every load; peers only where they are in the cache."""

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.messages import COUNT, message_values
from benchmarks.peers.benchmark import CACHE
from benchmarks.peers.kafka import KAFKA
from benchmarks.peers.load_client import LoadArguments, LoadClient
from benchmarks.peers.nats import NATS_SYNCED
from benchmarks.peers.penstock_system import PENSTOCK
from benchmarks.peers.system import SERVERS, Kind, System, cpu_s, pss_bytes
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SIZE = 100
WINDOW_S = 0.2


def test_penstock_does_every_load(tmp_path: Path) -> None:
    _every_load(PENSTOCK, tmp_path)


@pytest.mark.optional_peer
@pytest.mark.parametrize("kind", [KAFKA, NATS_SYNCED], ids=lambda kind: kind.key)
def test_a_peer_does_every_load(kind: Kind, tmp_path: Path) -> None:
    programs = kind.programs(CACHE.absolute())
    if programs is None or not (programs / "ready").exists():
        pytest.skip(f"{kind.title} is not in the cache; `make bench ONLY=peers_quick` fetches it")
    _every_load(kind, tmp_path)


def _every_load(kind: Kind, folder: Path) -> None:
    servers = folder / "servers"
    servers.mkdir()
    values = folder / "values"
    values.write_bytes(b"".join(message_values(SIZE)))
    with kind.prepare(CACHE.absolute())(servers) as system:
        assert len(system.servers()) == SERVERS
        for topic in ("many", "one"):
            system.make_topics(topic, 2 if topic == "many" else 1)
        produced = _until_stopped(system, folder, "produce", "many", values)
        assert produced > COUNT / 100
        assert _until_stopped(system, folder, "read", "many", values, messages=produced) > 0
        assert _until_stopped(system, folder, "single", "many", values) > 0
        _steady(system, folder, values)
        _gap(system, folder, values)
        assert cpu_s(system.servers()) > 0
        assert pss_bytes(system.servers()) > 1_000_000
        assert system.leader_of("one") in system.servers()
        running = system.servers()
    assert not any(server.is_running() and server.status() != "zombie" for server in running)


def _client(
    system: System, folder: Path, load: str, topic: str, values: Path, messages: int = 1
) -> LoadClient:
    arguments = LoadArguments(
        load=load,
        topic=topic,
        partitions=2 if topic == "many" else 1,
        values=values,
        bytes=SIZE,
        per_s=50,
        seconds=1,
        messages=messages,
        window_s=WINDOW_S,
    )
    return LoadClient(system.client(), system.bootstrap, arguments, folder / f"{load}.log")


def _until_stopped(
    system: System, folder: Path, load: str, topic: str, values: Path, messages: int = 1
) -> int:
    """Messages that were through when the load was stopped, some time after the first were."""
    with _client(system, folder, load, topic, values, messages) as client:
        while client.line_with("messages", PATIENCE_S)["messages"] == 0:
            pass
        client.stop()
        done = int(client.line_with("done", PATIENCE_S)["done"])
        client.wait()
    return done


def _steady(system: System, folder: Path, values: Path) -> None:
    with _client(system, folder, "steady", "one", values) as client:
        client.line_with("measuring", PATIENCE_S)
        client.line_with("measured", PATIENCE_S)
        times = client.line_with("acknowledged_ms", PATIENCE_S)
        client.wait()
    assert len(times["acknowledged_ms"]) == len(times["late_ms"]) == 50
    assert all(waited > 0 for waited in times["acknowledged_ms"])


def _gap(system: System, folder: Path, values: Path) -> None:
    with _client(system, folder, "gap", "one", values) as client:
        through = 0
        while through < 5:
            through += client.line_with("messages", PATIENCE_S)["messages"]
        client.stop()
        times = client.line_with("times_ms", PATIENCE_S)["times_ms"]
        client.wait()
    assert len(times) >= through
    assert all(earlier < later for earlier, later in pairwise(times))

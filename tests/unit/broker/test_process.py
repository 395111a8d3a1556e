"""One broker as a real process: start, readiness, drain, and each way in which it must not go on."""

import http.client
import json
import math
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from data_plane.broker.grpc_options import INTERNAL_CALLS_MAX
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods as internal
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from tests.certificates import CLUSTER, authority, channel_credentials, identity, own, write
from tests.certificates import settings as settings_of
from tests.waiting import PATIENCE_S, wait_until

from .test_config import make_certificate

pytestmark = [pytest.mark.processes, pytest.mark.slow]

FAILING_SYNCS = """
import errno, os, signal, sys
from data_plane.broker.process import main
sync, failing = os.fdatasync, []
def fdatasync(fd):
    if failing:
        raise OSError(errno.EIO, "Input/output error")
    sync(fd)
os.fdatasync = fdatasync
signal.signal(signal.SIGUSR1, lambda *_: failing.append(1))
sys.exit(main(sys.argv[1:]))
"""
"""A broker whose disk refuses to sync from SIGUSR1 on."""


HANGING = """
import asyncio, sys
from data_plane.broker import process
from data_plane.broker.peer_transport import PeerTransport
from data_plane.node.broker_node import BrokerNode
process._LAST_STEPS_S = 0.1
async def hang(self): await asyncio.sleep(600)
{where} = hang
process.main(sys.argv[1:])
"""
"""A broker of which a step of its stop never ends."""


IMPATIENT = """
import sys
from data_plane.broker import internal_handshakes
from data_plane.broker.process import main
internal_handshakes._CALL_S = 2.0
sys.exit(main(sys.argv[1:]))
"""
"""A broker that waits two seconds for the first call after a handshake."""


TWO_SIGNALS = """
import os, signal, sys
from data_plane.broker.process import main
signal.signal(signal.SIGUSR1, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
sys.exit(main(sys.argv[1:]))
"""
"""A broker that is told to stop at the moment in which it takes in another signal."""


FAULTY_MEMORY = """
import asyncio, signal, sys
from data_plane.broker.process import main
from data_plane.disk.port import DiskFault
from data_plane.node.membership.trusted_store import StoreWitness
failing = []
async def run(self):
    while not failing:
        await asyncio.sleep(0.01)
    raise DiskFault("metadata.seen.tmp: sync failed: Input/output error")
StoreWitness.run = run
signal.signal(signal.SIGUSR1, lambda *_: failing.append(1))
sys.exit(main(sys.argv[1:]))
"""
"""A broker that cannot write down what it has seen of the metadata, from SIGUSR1 on."""


class Broker:
    """A broker process with a directory of its own."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        (directory / "pepper").write_text("ab" * 32)
        self.settings: dict[str, Any] = {
            "broker_id": 1,
            "cluster_id": "c1",
            "data": str(directory / "data"),
            "metadata": str(directory / "metadata.db"),
            "identity": settings_of(write(directory / "identity", "broker-1", days=60)),
            "pepper_files": {"1": str(directory / "pepper")},
            "timings": {"session_ttl_ms": 1_500, "drain_ms": 2_000},
        } | settings
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, program: str = "", **settings: Any) -> "subprocess.Popen[str]":
        config = self.directory / f"config-{len(self.processes)}.json"
        config.write_text(json.dumps(self.settings | settings))
        command = [sys.executable, *(["-c", program] if program else ["-m", "data_plane.broker"])]
        process = subprocess.Popen(
            [*command, "--config", str(config)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def start_ready(self, program: str = "", **settings: Any) -> "subprocess.Popen[str]":
        process = self.start(program, **settings)
        wait_for("the broker is ready", lambda: self.get("/readyz") == 200, process)
        return process

    @property
    def address_file(self) -> Path:
        return self.directory / "data" / "address.json"

    def address(self, listener: str) -> str:
        return str(json.loads(self.address_file.read_text())[listener])

    def get(self, path: str) -> int:
        """Status of an HTTP request; 0 while there is nobody."""
        try:
            connection = http.client.HTTPConnection(self.address("http"), timeout=PATIENCE_S)
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def wait_for(what: str, condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    def holds() -> bool:
        assert process.poll() is None, process.communicate()[1]
        return condition()

    wait_until(what, holds)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """(exit status, what it wrote)."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, errors


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.close()


def method_of(channel: grpc.Channel, name: str) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
    return channel.unary_unary(name)


def test_a_broker_starts_serves_and_drains(broker: Broker) -> None:
    # A session of half a minute: a machine under load makes no loop stand still for a third of it.
    process = broker.start_ready(timings={"session_ttl_ms": 30_000, "drain_ms": 2_000})
    told = json.loads(broker.address_file.read_text())
    assert told["pid"] == process.pid
    assert broker.get("/healthz") == 200
    assert broker.get("/metrics") == 200
    with grpc.secure_channel(
        broker.address("internal"), channel_credentials(identity("operator"))
    ) as channel:
        describe = method_of(channel, internal.DESCRIBE_CLUSTER)
        answer = describe(b"", timeout=PATIENCE_S)
    assert [(b.id, b.state) for b in pb.DescribeClusterResponse.FromString(answer).brokers] == [(1, "active")]
    process.send_signal(signal.SIGTERM)
    status, written = ended(process)
    assert status == 0, written
    said = [json.loads(line)["message"] for line in written.splitlines()]
    assert said == ["started", "draining", "drained"]
    assert not broker.address_file.exists()
    assert (broker.directory / "data" / "clean").exists()


def streams_of_a_connection(address: str, tls: ssl.SSLContext | None = None) -> int:
    """What the listener says in its first HTTP/2 frame, SETTINGS: so many streams at once."""
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)), PATIENCE_S)
    with tls.wrap_socket(plain, server_hostname=host) if tls else plain as connection:
        said = connection.makefile("rb")
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        head = said.read(9)
        assert head[3] == 4, "SETTINGS come first"
        settings = said.read(int.from_bytes(head[:3], "big"))
    found: dict[int, int] = dict(struct.iter_unpack(">HI", settings))
    return found[3]


def read_context(broker: Broker) -> ssl.SSLContext:
    """Of an operator who speaks HTTP/2 himself."""
    tls = own(write(broker.directory / "operator", "operator"), "operator").current.client
    tls.set_alpn_protocols(["h2"])
    return tls


def test_a_connection_of_a_client_carries_fewer_streams_than_one_for_admin_calls(broker: Broker) -> None:
    broker.start_ready()
    assert streams_of_a_connection(broker.address("client")) == limits.STREAMS_PER_CONNECTION_MAX
    tls = read_context(broker)
    assert streams_of_a_connection(broker.address("internal"), tls) == INTERNAL_CALLS_MAX


def test_a_killed_broker_starts_again(broker: Broker) -> None:
    first = broker.start_ready()
    first.kill()
    first.wait()
    assert not (broker.directory / "data" / "clean").exists()
    second = broker.start_ready()
    assert json.loads(broker.address_file.read_text())["pid"] == second.pid


def test_a_second_signal_ends_at_once(broker: Broker) -> None:
    process = broker.start_ready(
        FAILING_SYNCS.replace("if failing:", "if failing:\n        import time; time.sleep(60)")
    )
    process.send_signal(signal.SIGUSR1)  # from now on a sync takes a minute, and with it the drain
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("draining" in line for line in process.stderr), "it ended before it drained"
    process.send_signal(signal.SIGTERM)
    status, written = ended(process)
    assert status == 1
    assert "aborted" in written


def test_a_signal_that_comes_while_another_one_is_taken_in_counts_once(broker: Broker) -> None:
    # A session of half a minute: a machine under load makes no loop stand still for a third of it.
    process = broker.start_ready(TWO_SIGNALS, timings={"session_ttl_ms": 30_000, "drain_ms": 2_000})
    process.send_signal(signal.SIGUSR1)
    status, written = ended(process)
    assert status == 0, written
    assert [json.loads(line)["message"] for line in written.splitlines()] == [
        "started",
        "draining",
        "drained",
    ]


def test_a_sync_that_fails_ends_the_broker_with_the_reason(broker: Broker) -> None:
    process = broker.start_ready(FAILING_SYNCS)
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)  # the drain's last checkpoint is a sync
    status, written = ended(process)
    assert status == 70, written
    last = json.loads(written.splitlines()[-1])
    assert last["level"] == "critical"
    assert last["message"] == "storage failed; start again to recover"
    # Of which file depends on what was synced at that moment.
    assert "sync failed: " in last["fault"] and "Input/output error" in last["fault"]
    assert not (broker.directory / "data" / "clean").exists()


def test_a_disk_that_fails_anywhere_ends_the_broker_with_the_reason_and_not_as_its_own_bug(
    broker: Broker,
) -> None:
    process = broker.start_ready(FAULTY_MEMORY)
    process.send_signal(signal.SIGUSR1)
    status, written = ended(process)
    assert status == 70, written
    last = json.loads(written.splitlines()[-1])
    assert last["message"] == "storage failed; start again to recover"
    assert last["fault"].endswith("metadata.seen.tmp: sync failed: Input/output error")


def test_a_broker_outlives_a_metadata_file_that_cannot_be_written_for_a_while(broker: Broker) -> None:
    process = broker.start_ready(limits={"journal_bytes": 100_000})
    journal = broker.directory / "data" / "journal"
    wait_for("a spare file", lambda: any(journal.glob("spare*")), process)
    _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1_000, most))  # the next keep-alive finds no room
    assert process.stderr is not None
    for line in ("metadata store has no disk space", "metadata store has disk space again"):
        while line not in (told := process.stderr.readline()):
            assert told, f"it ended with {process.wait()}"
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
    process.terminate()
    assert ended(process)[0] == 0


# -- what keeps it from starting -------------------------------------------------------------------------------


def refused(broker: Broker, says: str, **settings: Any) -> None:
    status, written = ended(broker.start(**settings))
    assert status == 2, written
    last = written.splitlines()[-1]
    assert last.startswith("penstock-broker: ")
    assert says in last
    assert "Traceback" not in written


def of_broker(broker: Broker, number: int, cluster_id: str = CLUSTER) -> dict[str, Any]:
    """The settings that say who it is."""
    folder = broker.directory / f"{cluster_id}-{number}"
    files = write(folder, f"broker-{number}", ca=authority(cluster_id))
    return {"broker_id": number, "cluster_id": cluster_id, "identity": settings_of(files)}


def test_a_certificate_of_another_broker_or_cluster_is_refused(broker: Broker) -> None:
    refused(broker, "is of penstock://c1/broker/1, one of broker/2 required", broker_id=2)
    refused(broker, "is of penstock://c1/broker/1, one of cluster c2 required", cluster_id="c2")


def test_two_brokers_cannot_have_one_log_directory(broker: Broker) -> None:
    process = broker.start_ready()
    refused(broker, "another process holds the log directory", **of_broker(broker, 2))
    assert json.loads(broker.address_file.read_text())["pid"] == process.pid
    wait_for("it is ready, or registers again", lambda: broker.get("/readyz") == 200, process)


def test_a_log_directory_of_another_broker_is_refused(broker: Broker) -> None:
    process = broker.start_ready()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    refused(broker, "directory.json: broker_id is 1, 2 required", **of_broker(broker, 2))
    refused(broker, "cluster_id", **of_broker(broker, 1, "c2"))


def test_a_port_in_use_is_named(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for listener in ("client_listen", "internal_listen", "peer_listen"):
            refused(broker, f"{address}: cannot be bound", **{listener: address})
        refused(broker, "Address already in use", http_listen=address)


def test_a_metadata_file_that_is_none_is_named(broker: Broker) -> None:
    garbage = broker.directory / "garbage.db"
    garbage.write_bytes(os.urandom(10_000))
    refused(broker, "garbage.db: SQLITE_NOTADB", metadata=str(garbage))


def test_a_wrong_setting_is_named(broker: Broker) -> None:
    refused(broker, "client_listen: 0.0.0.0 is not a loopback address", client_listen="0.0.0.0:0")


def test_an_identity_that_is_not_there_is_named(broker: Broker) -> None:
    files = settings_of(write(broker.directory / "identity", "broker-1")) | {"key_file": "/nowhere"}
    refused(broker, "identity.key_file: /nowhere: No such file", identity=files)


# -- ports ---------------------------------------------------------------------------------------------------


def test_a_clients_listener_with_a_certificate_speaks_tls_and_nothing_else(broker: Broker) -> None:
    certificate, key = make_certificate(broker.directory)
    process = broker.start_ready(tls_certificate_file=str(certificate), tls_key_file=str(key))
    address = broker.address("client")
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    with grpc.secure_channel(address, credentials) as channel, pytest.raises(grpc.RpcError) as refusal:
        method_of(channel, methods.METADATA)(b"", timeout=PATIENCE_S)
    trailing = {one.key: one.value for one in refusal.value.trailing_metadata()}
    assert trailing[methods.ERROR_CODE] == str(int(ErrorCode.UNAUTHENTICATED))
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as lost:
        method_of(channel, methods.METADATA)(b"", timeout=PATIENCE_S)
    assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
    wait_for("it is ready, or registers again", lambda: broker.get("/readyz") == 200, process)


def test_each_certificate_of_a_broker_has_its_time_left_in_a_metric(broker: Broker) -> None:
    certificate, key = make_certificate(broker.directory)
    process = broker.start_ready(tls_certificate_file=str(certificate), tls_key_file=str(key))

    def left_s() -> dict[str, float]:
        text = urllib.request.urlopen(f"http://{broker.address('http')}/metrics", timeout=PATIENCE_S).read()
        begins = 'penstock_certificate_expires_seconds{certificate="'
        lines = [line for line in text.decode().splitlines() if line.startswith(begins)]
        return {line.removeprefix(begins).partition('"')[0]: float(line.rpartition(" ")[2]) for line in lines}

    found = left_s()
    assert sorted(found) == ["identity.ca_file", "identity.certificate_file", "tls_certificate_file"]
    assert 86_400 < found["tls_certificate_file"] <= 2 * 86_400
    certificate.unlink()
    wait_for("it cannot be read", lambda: math.isnan(left_s()["tls_certificate_file"]), process)


def test_garbage_on_every_port_leaves_the_broker_ready(broker: Broker) -> None:
    process = broker.start_ready()
    for listener in ("client", "internal", "peer", "http"):
        host, _, port = broker.address(listener).partition(":")
        for garbage in (
            os.urandom(5_000),
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(5_000),
        ):
            with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as peer:
                peer.sendall(garbage)
    wait_for("it is ready, or registers again", lambda: broker.get("/readyz") == 200, process)
    with grpc.secure_channel(
        broker.address("internal"), channel_credentials(identity("operator"))
    ) as channel:
        describe = method_of(channel, internal.DESCRIBE_CLUSTER)
        describe(b"", timeout=PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    status, written = ended(process)
    assert status == 0
    assert "failed" not in written


def refused_handshakes(broker: Broker) -> dict[str, int]:
    """On the internal listener, by reason."""
    with urllib.request.urlopen(f"http://{broker.address('http')}/metrics", timeout=PATIENCE_S) as answer:
        told = answer.read().decode()
    found = re.findall(
        r'^penstock_refused_handshakes_total\{reason="(\w+)",side="internal"\} (\d+)', told, re.M
    )
    return {reason: int(count) for reason, count in found if int(count)}


def test_a_handshake_counts_as_refused_only_if_no_call_follows(broker: Broker) -> None:
    process = broker.start_ready(IMPATIENT)
    address = broker.address("internal")
    with grpc.secure_channel(address, channel_credentials(identity("operator"))) as channel:
        method_of(channel, internal.DESCRIBE_CLUSTER)(b"", timeout=PATIENCE_S)
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        wait_for("the stranger is counted", lambda: bool(refused_handshakes(broker)), process)
    assert refused_handshakes(broker) == {"no_call": 1}


def test_tenants_have_no_way_to_the_internal_methods(broker: Broker) -> None:
    broker.start_ready()
    key = ((methods.AUTHORIZATION, "Bearer penstock_test_abcdefghijkl"),)
    for method in (internal.DESCRIBE_CLUSTER, internal.CREATE_TOPIC, internal.PUT_KEY, internal.DELETE_TOPIC):
        with (
            grpc.insecure_channel(broker.address("internal")) as channel,
            pytest.raises(grpc.RpcError) as refusal,
        ):
            method_of(channel, method)(b"", metadata=key, timeout=PATIENCE_S)
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "handshake" in (refusal.value.details() or "").lower() or "closed" in (
            refusal.value.details() or ""
        )
        with (
            grpc.insecure_channel(broker.address("client")) as channel,
            pytest.raises(grpc.RpcError) as missing,
        ):
            method_of(channel, method)(b"", metadata=key, timeout=PATIENCE_S)
        assert missing.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("where", "status", "last"),
    [
        ("PeerTransport.close", 0, "did not close in time"),
        ("BrokerNode.drain", 1, "not drained in time; the next start recovers"),
    ],
)
def test_a_stop_that_hangs_ends_all_the_same(broker: Broker, where: str, status: int, last: str) -> None:
    process = broker.start_ready(
        HANGING.format(where=where), timings={"session_ttl_ms": 1_500, "drain_ms": 100}
    )
    process.send_signal(signal.SIGTERM)
    ended_with, written = ended(process)
    assert ended_with == status, written
    assert json.loads(written.splitlines()[-1])["message"] == last
    assert (broker.directory / "data" / "clean").exists() is (status == 0)

"""`penstock doctor` names what is wrong, says what to do, and ends as a command would that fails of it."""

import json
import re
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest

from penstock.cli.__main__ import run
from penstock.contract.api_keys import RANDOM_BYTES, make_api_key
from tests.integration.operations.certificates import make_certificate
from tests.integration.rest.little_server import Answer, Asked, little_server
from tests.waiting import PATIENCE_S, wait_until

KEY = make_api_key("dev", secrets.token_bytes(RANDOM_BYTES)).reveal()


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PROFILE", "BOOTSTRAP", "API_KEY", "API_URL", "CA_FILE"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))


@pytest.fixture
def closed_port() -> Iterator[str]:
    # Bound as long as the test lasts, and so nobody else's; without `listen` it refuses connections.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def examined(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the last answer of each check by name."""
    code = run(["doctor", "--json", "--timeout", "2", *options])
    told = json.loads(capsys.readouterr().out)
    assert told["exit_code"] == code and told["ok"] == (code == 0)
    for found in told["checks"]:
        assert found["state"] != "wrong" or (found["remedy"] and found["code"]), found
        assert KEY not in found["fact"]
    return code, {found["check"]: found for found in told["checks"]}


def examined_until(
    capsys: pytest.CaptureFixture[str], holds: Callable[[dict[str, dict[str, Any]]], bool]
) -> dict[str, dict[str, Any]]:
    """The answers of the examination of which it holds."""
    found: dict[str, dict[str, Any]] = {}

    def examine() -> bool:
        found.clear()
        found.update(examined(capsys)[1])
        return holds(found)

    wait_until("the doctor finds it", examine, instead=lambda: found)
    return found


@contextmanager
def listening(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """An address that takes connections and does nothing else."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            try:
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                connection.recv(1)
            except OSError:
                pass
            finally:
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(PATIENCE_S)


def test_a_newcomer_is_told_that_there_is_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys)
    assert code == 5
    assert found["settings"]["code"] == "CONFIGURATION" and "no broker address" in found["settings"]["fact"]


def test_a_profile_that_others_may_read_and_a_cut_key_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, closed_port: str
) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(f'[default]\nbootstrap = "{closed_port}"\napi_key = "{KEY[:-3]}"\n')
    file.chmod(0o644)
    code, found = examined(capsys)
    assert code == 4
    assert found["profile"]["state"] == "doubtful" and f"chmod 600 {file}" in found["profile"]["remedy"]
    assert found["key"]["code"] == "UNAUTHENTICATED"


def test_a_profile_that_does_not_exist_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE", "staging")
    code, found = examined(capsys)
    assert code == 5 and "staging" in found["profile"]["fact"]


def test_brokers_that_do_not_listen_are_no_success(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, closed_port: str
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", closed_port)
    monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
    code, found = examined(capsys)
    assert code == 6 and closed_port in found["broker"]["fact"]
    assert (
        found["control plane"]["state"] == "skipped"
        and "PENSTOCK_API_URL" in found["control plane"]["remedy"]
    )


def test_a_clock_two_hours_ahead_and_a_refused_key_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, closed_port: str
) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path == "/readyz":
            return Answer(body={"status": "ready"}, headers={"Date": formatdate(time() - 7_200, usegmt=True)})
        return Answer(status=401, body={"code": "unauthenticated", "detail": "the key was revoked"})

    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", closed_port)
    monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
    with little_server(answer) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        _, found = examined(capsys)
    assert found["control plane"]["state"] == "ok"
    assert found["clock"]["code"] == "TIMESTAMP_OUT_OF_RANGE"
    assert re.search(r" 72\d\d s ahead", found["clock"]["fact"]), found["clock"]["fact"]
    assert found["key at the control plane"]["code"] == "UNAUTHENTICATED"


def a_service_that_says(status: int, body: dict[str, Any]) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        if asked.path == "/readyz":
            return Answer(status=status, body=body)
        if asked.path.startswith("/v1/quotas"):
            return Answer(body={"tenant": "tn_1", "produce_bytes_per_s": 0, "partitions_max": 8})
        return Answer(body={"items": [{"name": "acme", "id": "tn_1", "partitions": 8}], "next": None})

    return answer


def test_a_service_whose_worker_does_nothing_is_wrong_and_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
    checks = {"database": "ok", "worker": "no heartbeat for 60 s: changes wait until a worker runs"}
    with (
        listening() as broker,
        little_server(a_service_that_says(503, {"status": "not ready", "checks": checks})) as server,
    ):
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker)
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        code, found = examined(capsys)
    assert code == 6
    assert (found["control plane"]["state"], found["service"]["state"]) == ("ok", "wrong")
    assert found["service"]["fact"] == (
        "not ready: worker: no heartbeat for 60 s: changes wait until a worker runs"
    )
    assert "bills, payments and mail" in found["service"]["remedy"]
    assert "acme" in found["key at the control plane"]["fact"]
    assert found["limits"]["state"] == "doubtful" and "8 of 8 partitions" in found["limits"]["fact"]


def test_a_task_of_the_schedule_that_is_late_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, closed_port: str
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", closed_port)
    monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
    late = {"billing.bill_run": "has not gone well for 312 s: OperationalError: locked"}
    with little_server(a_service_that_says(200, {"status": "ready", "warnings": late})) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        _, found = examined(capsys)
    assert found["service"]["state"] == "doubtful"
    assert "billing.bill_run: has not gone well for 312 s: OperationalError" in found["service"]["fact"]


def test_a_certificate_that_is_not_trusted_is_told_from_a_broker_that_is_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown, other = make_certificate(tmp_path, "shown"), make_certificate(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    with listening(context) as address:
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", address)
        monkeypatch.setenv("PENSTOCK_CA_FILE", str(other.certificate))
        # On a busy machine a handshake may take longer than a check waits.
        found = examined_until(capsys, lambda found: "TLS fails" in found["broker"]["fact"])
        assert found["broker"]["code"] == "CONFIGURATION"
        monkeypatch.setenv("PENSTOCK_CA_FILE", str(shown.certificate))
        found = examined_until(capsys, lambda found: found["broker"]["state"] == "doubtful")
        assert "ends in" in found["broker"]["fact"]
    monkeypatch.setenv("PENSTOCK_CA_FILE", str(tmp_path / "none.pem"))
    code, found = examined(capsys)
    assert code == 5 and "no such file" in found["settings"]["fact"]

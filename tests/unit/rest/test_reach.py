"""A service and brokers that are not there are told within seconds, however long an answer may take."""

import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from penstock.cli.exit_codes import ExitCode, exit_code
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import BrokerUnavailable
from penstock.rest.client import RestClient
from penstock.rest.problems import ServiceUnavailable
from penstock.verification.stamped_reads import StampedReads
from tests.integration.rest.little_server import Answer, Asked, little_server
from tests.waiting import PATIENCE_S

PATIENT_S = 600.0
"""Only a client that does not give up waits so long; the test's own time is up before."""


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which every connection is refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that answers no attempt to connect: its line of those who wait is full."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield f"127.0.0.1:{full.getsockname()[1]}"


@pytest.mark.parametrize("address", ["nobody", "silent"])
@pytest.mark.timeout(60)
def test_a_service_that_cannot_be_reached_is_told_soon_and_after_a_second_attempt(
    address: str, request: pytest.FixtureRequest
) -> None:
    with (
        RestClient(f"http://{request.getfixturevalue(address)}", reach_s=0.2) as rest,
        pytest.raises(ServiceUnavailable, match="cannot be reached") as told,
    ):
        rest.get("/v1/invoices", timeout_s=PATIENT_S)
    assert "whether the service runs" in told.value.remedy


def test_a_service_that_can_be_reached_has_all_the_time_that_its_answer_takes() -> None:
    answers = iter([Answer(status=503), Answer(status=503), Answer(body={"is": "there"}, wait_s=0.5)])

    def answering(_: Asked) -> Answer:
        return next(answers)

    with little_server(answering) as server, RestClient(server.url, reach_s=0.1) as rest:
        assert rest.get("/v1/invoices", timeout_s=PATIENT_S) == {"is": "there"}


@pytest.mark.parametrize(
    ("method", "left_behind"), [("post", ["POST /v1/topics: the service may have"]), ("get", [])]
)
def test_a_change_that_ctrl_c_interrupts_says_that_it_may_be_done(
    method: str, left_behind: list[str]
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    is_interrupted = threading.Event()

    def interrupting(_: Asked) -> Answer:
        signal.pthread_kill(main, signal.SIGINT)
        is_interrupted.wait(PATIENCE_S)
        return Answer(body={})

    with little_server(interrupting) as server, RestClient(server.url) as rest:
        with pytest.raises(KeyboardInterrupt) as stopped:
            getattr(rest, method)("/v1/topics", timeout_s=PATIENT_S)
        is_interrupted.set()
    notes = getattr(stopped.value, "__notes__", [])
    assert [note[: len(left_behind[0])] for note in notes] == left_behind


@pytest.mark.parametrize("address", ["nobody", "silent"])
@pytest.mark.timeout(60)
def test_brokers_that_cannot_be_reached_are_told_soon(address: str, request: pytest.FixtureRequest) -> None:
    settings = ConnectionSettings(bootstrap=(request.getfixturevalue(address),), api_key="penstock_test_x")
    with (
        StampedReads(settings, PATIENT_S, reach_s=0.2) as reads,
        pytest.raises(BrokerUnavailable, match=r"no broker answered within 0\.2 s") as told,
    ):
        reads.commitments()
    assert "whether the brokers run" in told.value.remedy


@pytest.mark.timeout(60)
def test_each_command_of_a_proof_ends_soon_with_the_code_of_what_is_not_there(
    nobody: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", f"{tmp_path}/none.toml")
    monkeypatch.setenv("PENSTOCK_API_URL", f"http://{nobody}")
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", nobody)
    monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
    monkeypatch.setattr("penstock.cli.rest.REACH_S", 0.2)
    for command in (
        ["verify-invoice", "inv_1"],
        ["invoice", "anchor", f"{tmp_path}/anchor"],
        ["invoice", "evidence", "inv_1", f"{tmp_path}/one"],
        ["invoice", "evidence", "inv_1", f"{tmp_path}/two", "--with-log"],
        ["invoice", "show", "inv_1", "--open", "--timeout", str(PATIENT_S)],
        ["sla", "verify", "2026-10"],
    ):
        ran = CliRunner().invoke(cli, command)
        assert isinstance(ran.exception, ServiceUnavailable), command
        assert exit_code(ran.exception) is ExitCode.UNAVAILABLE

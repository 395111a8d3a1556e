"""The runner waits for the service, and ends at SIGTERM. Its rounds are in `integration/fail_over/test_runner.py`."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from pyspark import SparkContext

from local.free_ports import HOST, free_port
from penstock.cli.exit_codes import ProcessEnd
from spark_usage import configuration
from spark_usage import runner as runner_module
from spark_usage.java_wear import Descriptors
from spark_usage.lease import lease_of
from spark_usage.rounds import Round
from spark_usage.runner import Runner, pause_s
from spark_usage.session import java_has_ended
from tests.spark_usage.service import service
from tests.spark_usage.test_bronze import usage_values
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def wait_for(what: str, condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    def holds() -> bool:
        assert process.poll() is None, f"ended: {process.communicate()[0]}"
        return condition()

    wait_until(what, holds)


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def members(group: int) -> list[int]:
    """Processes of a process group that are no zombies."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def javas(group: int) -> list[int]:
    """Those of a process group that are a Java."""
    found = []
    for pid in members(group):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).name() == "java":
                found.append(pid)
    return found


def test_runner_waits_for_its_key_looks_without_spark_and_ends(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        settings = json.loads(running.config_file.read_text())
        key_file = Path(settings["usage_key_file"])
        key_file.rename(tmp_path / "aside")
        port = free_port(set())
        own = {"pipeline_interval_s": 600, "runner_listen": f"{HOST}:{port}"}
        running.config_file.write_text(json.dumps(settings | own))
        process = running.runner()

        def beat() -> dict[str, Any]:
            try:
                found: dict[str, Any] = json.loads((tmp_path / "runner.json").read_text())
                return found
            except FileNotFoundError:
                return {}

        try:
            wait_for("the runner waits for its key", lambda: beat().get("state") == "waiting", process)
            assert beat()["pid"] == process.pid
            assert get(port, "/healthz")[0] == 200
            status, text = get(port, "/readyz")
            assert status == 503 and "the service account's key is not there yet" in text
            assert 'penstock_runner_state{state="waiting"} 1.0' in get(port, "/metrics")[1]
            (tmp_path / "aside").rename(key_file)
            wait_for("a look at an empty topic", lambda: beat().get("state") == "ready", process)
            last = beat()["round"]
            assert (last["records"], last["runs"], javas(process.pid)) == (0, {}, [])
            assert get(port, "/readyz")[0] == 200

            process.send_signal(signal.SIGTERM)
            output = process.communicate(timeout=PATIENCE_S)[0]
            assert process.returncode == 0, output
            assert beat()["state"] == "stopped"
            wait_until("all of its processes have ended", lambda: members(process.pid) == [])
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def test_rounds_that_take_long_are_further_apart() -> None:
    assert pause_s(0.5, 10.0) == 10.0
    assert pause_s(8.0, 10.0) == 16.0
    assert pause_s(300.0, 10.0) == 30.0, "what is new is not waited for any longer"
    assert pause_s(300.0, 600.0) == 600.0, "an operator's interval holds"


@pytest.fixture
def chosen(tmp_path: Path) -> configuration.Configuration:
    """The configuration of a service whose brokers are not there."""
    file = tmp_path / "penstock.json"
    values: dict[str, Any] = {
        "brokers": {"bootstrap": ["127.0.0.1:1"]},
        "datasets": str(tmp_path / "datasets"),
    }
    values |= {"usage_key_file": str(tmp_path / "usage.key"), "pipeline_interval_s": 600}
    file.write_text(json.dumps(values))
    (tmp_path / "datasets").mkdir()
    return configuration.read(file)


class Ended(BaseException):
    """The process would have ended."""


def test_a_runner_whose_java_is_worn_out_gives_its_lease_back_and_ends(
    chosen: configuration.Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = iter((400, 410, 2_249))
    monkeypatch.setattr(
        runner_module, "descriptors_of_java", lambda: Descriptors(open=next(opened), most=4_096)
    )
    lease = lease_of(chosen)
    assert lease.hold()
    runner = Runner(chosen, lease)

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    runner._end_if_worn_out()
    runner._end_if_worn_out()
    assert not lease_of(chosen).hold(), "it goes on"
    with pytest.raises(Ended, match=str(int(ProcessEnd.FAILED))):
        runner._end_if_worn_out()
    another = lease_of(chosen)
    assert another.hold(), "another runner may work at once"
    another.release()


def test_a_round_that_failed_is_not_left_for_a_long_interval(
    chosen: configuration.Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lease_of(chosen)
    assert lease.hold()
    runner = Runner(chosen, lease)

    def fail(_: object) -> Round:
        raise RuntimeError("a disk is full")

    monkeypatch.setattr(runner, "_do", fail)
    assert runner._round(runner._heartbeat) == 30.0
    lease.release()


def test_java_that_ended_is_noticed_also_while_spark_still_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as java:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java))
        assert not java_has_ended()
        java.kill()
        java.wait(PATIENCE_S)
        assert java_has_ended()
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert not java_has_ended(), "Spark is not needed yet"


def test_once_tells_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        Path(json.loads(running.config_file.read_text())["usage_key_file"]).unlink()
        process = running.process("spark_usage", "once")
        output = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 1
        assert output.splitlines() == [
            f"spark_usage: {tmp_path / 'usage.key'}: the service account's key is not there yet"
        ]
        (tmp_path / "usage.key").write_text(running.api_key)
        running.write(usage_values(0, 1))
        settings = json.loads(running.config_file.read_text())
        address = f"127.0.0.1:{free_port(set())}"
        running.config_file.write_text(json.dumps(settings | {"spark": {"master": f"spark://{address}"}}))
        process = running.process("spark_usage", "once")
        output = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 1
        assert output.splitlines()[-1] == (
            "spark_usage: no master of Spark answers; start it, or correct spark.master: "
            f"{address}: [Errno 111] Connection refused"
        )
        running.config_file.write_text("{}")
        process = running.runner()
        assert "brokers: missing; give it a value" in process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 2

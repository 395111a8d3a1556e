"""What is forked runs as a process of its own does: its output, environment and status, signals, and its id."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration import forked
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes


def test_a_module_runs_in_its_folder_with_our_environment_to_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "says.py"
    module.write_text(
        "import os, sys\nprint(os.getcwd(), os.environ['SAID'], sys.argv[1:], __name__)\nsys.exit(7)\n"
    )
    monkeypatch.setenv("SAID", "to the fork")
    output = tmp_path / "output"
    output.write_text("before\n")
    process = forked.start("says", ["one"], folder=tmp_path, output=output)
    assert process.wait(PATIENCE_S) == 7, output.read_text()
    assert process.poll() == 7
    assert output.read_text() == f"before\n{tmp_path} to the fork ['one'] __main__\n"


def test_a_process_that_runs_has_no_status_and_one_that_was_killed_has_the_signals(tmp_path: Path) -> None:
    first, second = (
        forked.start("http.server", ["--bind", "127.0.0.1", "0"], folder=tmp_path, output=tmp_path / "output")
        for _ in range(2)
    )
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.1)
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_S) == -signal.SIGTERM
    assert second.poll() is None
    os.kill(second.pid, signal.SIGKILL)
    os.kill(second.pid, signal.SIGKILL)  # its id is still its own
    assert second.wait(PATIENCE_S) == -signal.SIGKILL
    second.send_signal(signal.SIGTERM)  # nothing gets it

"""The usage pipeline in a process of its own, which may be killed while it writes a data set that is named."""

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.spark_usage.records import Stored
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


def job(folder: Path, stored: Sequence[Stored], ends: Mapping[str, int]) -> dict[str, Any]:
    """A round over these records of `__usage`."""
    return {
        "folder": str(folder),
        "ends": dict(ends),
        "records": [
            (one.partition, one.offset, base64.b64encode(one.value or b"").decode()) for one in stored
        ],
    }


class Folds:
    """One Spark for all folds; it starts with the first one."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._errors = scratch / "errors"
        self._process: subprocess.Popen[str] | None = None

    def do(self, jobs_file: Path, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Returns when all are done."""
        process = self._begin(jobs_file, jobs)
        assert process.stdout is not None
        # Java may say something there too.
        done = "nothing in time"
        while done != str(jobs_file) and select.select([process.stdout], [], [], PATIENCE_S)[0]:
            line = process.stdout.readline()
            assert line, f"it ended\n{self._errors.read_text(errors='replace')[-4000:]}"
            done = line.strip()
        assert done == str(jobs_file), f"{done}\n{self._errors.read_text(errors='replace')[-4000:]}"

    def killed(self, jobs_file: Path, one: Mapping[str, Any], data_set: str) -> bool:
        """Kill the driver, Python and Java, once it writes the data set. False: it came to its end before."""
        process = self._begin(jobs_file, [one])
        assert process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while not any((Path(one["folder"]) / data_set).glob(".pending-*")):
            assert time.monotonic() < deadline, f"{data_set} was not begun"
            if select.select([process.stdout], [], [], 0.001)[0]:
                process.stdout.readline()
                return False
        self.end()
        return True

    def end(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _begin(self, jobs_file: Path, jobs: Iterable[Mapping[str, Any]]) -> "subprocess.Popen[str]":
        jobs_file.write_text(json.dumps(list(jobs)), encoding="utf-8")
        if self._process is None:
            with self._errors.open("ab") as errors:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        *("-m", "tests.control_plane.billing.fold_records", str(self._scratch / "spark")),
                    ],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    start_new_session=True,
                )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{jobs_file}\n")
        self._process.stdin.flush()
        return self._process

"""Whether what was started serves by now, and how long it took."""

import ssl
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hosts.program import Program

_ASK_S = 3.0
_POLL_S = 0.1
_HEADERS = {"Host": "127.0.0.1"}
"""The name under which every web process lets itself be asked."""


class NotReady(Exception):
    """A process has ended or does not serve in time; with its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A process that serves, and how long after its start."""

    program: Program
    seconds: float


def answers(url: str, ca_file: Path | None = None) -> bool:
    """Whether a GET of it is answered with success; over TLS by one whom that authority vouches for."""
    context = None if ca_file is None else ssl.create_default_context(cafile=str(ca_file))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(urllib.request.Request(url, headers=_HEADERS), timeout=_ASK_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def start_all(starting: Sequence[tuple[Program, Callable[[], bool]]], within_s: float) -> list[Ready]:
    """Start these processes, and wait until each serves, as it is asked by its function. Raises `NotReady`."""
    began = time.monotonic()
    for program, _ in starting:
        program.start()
    ready: list[Ready] = []
    waiting = list(starting)
    while waiting:
        for program, serves in list(waiting):
            if serves():
                ready.append(Ready(program=program, seconds=time.monotonic() - began))
                waiting.remove((program, serves))
            elif program.status is not None:
                raise NotReady(_why(program, f"ended with status {program.status}"))
        if waiting and time.monotonic() > began + within_s:
            raise NotReady(_why(waiting[0][0], f"does not serve {within_s:g} s after its start"))
        time.sleep(_POLL_S)
    return ready


def wait_until(what: str, holds: Callable[[], bool], within_s: float) -> None:
    """Raises `NotReady`."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise NotReady(f"not within {within_s:g} s: {what}")
        time.sleep(_POLL_S)


def _why(program: Program, what: str) -> str:
    return f"{program.name} on {program.host.name}: {what}; {program.output}\n{program.last_words()}"

"""Asks a running Java about itself over its attach socket, as `jcmd` does, without the start of another Java.

The protocol is that of HotSpot on Linux (`attachListener_posix.cpp`): a file asks for the socket, SIGQUIT has Java look
for that file, and each request is a version, a command and three arguments, each ended by a zero byte.
"""

import os
import re
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TEMPORARY = Path("/tmp")
"""HotSpot uses this folder whatever `java.io.tmpdir` says."""
_ANSWER_S = 60.0
_POLL_S = 0.05
_KIB_A_MIB = 1024
_METASPACE = re.compile(r"Metaspace\s+used (\d+)K")
_CODE = re.compile(r"size=\d+Kb used=(\d+)Kb")
_CLASSES = re.compile(r"Total Usage - (\d+) loaders, (\d+) classes")
_COLLECTION = re.compile(r"Pause (Young|Full)[^\n]* \d+M->(\d+)M\((\d+)M\)")
_HISTOGRAM_ROW = re.compile(r"\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)")


class NoAnswer(Exception):
    """Java is gone, or did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A collection of garbage, as Java's log has it."""

    full: bool
    after_mib: int
    heap_mib: int
    """The heap's capacity after it."""


def ask(pid: int, command: str) -> str:
    """Java's answer to a command of `jcmd`, such as `GC.heap_info`. Raises `NoAnswer`."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(str(_socket_of(pid)))
            # Joined, the last of these parts ends the third argument.
            connection.sendall(b"\0".join([b"1", b"jcmd", command.encode(), b"", b"", b""]))
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    except OSError as error:
        raise NoAnswer(f"Java {pid}: {error}") from error
    status, _, text = answer.partition(b"\n")
    if status != b"0":
        raise NoAnswer(f"Java {pid}: {command}: {answer.decode(errors='replace').strip()}")
    return text.decode(errors="replace")


def _socket_of(pid: int) -> Path:
    path = _TEMPORARY / f".java_pid{pid}"
    if path.exists():
        return path
    request = _TEMPORARY / f".attach_pid{pid}"
    request.touch()
    try:
        deadline = time.monotonic() + _ANSWER_S
        os.kill(pid, signal.SIGQUIT)
        while not path.exists():
            if time.monotonic() > deadline:
                raise NoAnswer(f"Java {pid} opened no socket in {_ANSWER_S:.0f} s")
            time.sleep(_POLL_S)
    finally:
        request.unlink(missing_ok=True)
    return path


def metaspace_mib(heap_info: str) -> float:
    """Metaspace in use, class space included, by the answer to `GC.heap_info`."""
    return sum(int(used) for used in _METASPACE.findall(heap_info)) / _KIB_A_MIB


def code_mib(codecache: str) -> float:
    """Compiled code, by the answer to `Compiler.codecache`."""
    return sum(int(used) for used in _CODE.findall(codecache)) / _KIB_A_MIB


def loaders_and_classes(metaspace: str) -> tuple[int, int]:
    """Class loaders and classes that are loaded now, by the answer to `VM.metaspace`."""
    matched = _CLASSES.search(metaspace)
    return (0, 0) if matched is None else (int(matched[1]), int(matched[2]))


def collections(log: str) -> list[Collection]:
    """The collections in a text of Java's log (`-Xlog:gc`), in order."""
    return [
        Collection(full=kind == "Full", after_mib=int(after), heap_mib=int(capacity))
        for kind, after, capacity in _COLLECTION.findall(log)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Objects that are in use, by class."""

    bytes_of: Mapping[str, int]
    count_of: Mapping[str, int]

    @property
    def mib(self) -> float:
        """All of them together."""
        return sum(self.bytes_of.values()) / 2**20

    def growth_since(self, earlier: "Histogram", most: int) -> list[tuple[str, int, int]]:
        """(class, further bytes, further objects) of the classes that grew the most, at most so many."""
        grown = [
            (name, size - earlier.bytes_of.get(name, 0), self.count_of[name] - earlier.count_of.get(name, 0))
            for name, size in self.bytes_of.items()
            if size > earlier.bytes_of.get(name, 0)
        ]
        return sorted(grown, key=lambda row: -row[1])[:most]


def histogram(answer: str) -> Histogram:
    """The answer to `GC.class_histogram`, before which Java collects all garbage."""
    bytes_of: dict[str, int] = {}
    count_of: dict[str, int] = {}
    for count, size, name in _HISTOGRAM_ROW.findall(answer):
        bytes_of[name] = bytes_of.get(name, 0) + int(size)
        count_of[name] = count_of.get(name, 0) + int(count)
    return Histogram(bytes_of=bytes_of, count_of=count_of)

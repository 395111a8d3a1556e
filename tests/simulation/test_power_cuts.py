"""The simulated disk is no kinder than real ones: what ext4 and XFS leave after a power cut, its model may leave too.

Traces of operations are performed on a file system on a loop device and on the model. The file system is then shut
down as a power cut would (`EXT4_IOC_SHUTDOWN` without flushing its journal: 9 ms a cut) and mounted again; what is
found must be among the outcomes that the model has for that trace. Mounting takes the rights of root, which tests in
CI and in `make fresh` have: as root a machine that cannot mount loop devices fails, with the command that failed.
"""

import fcntl
import os
import random
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from data_plane.disk.port import SyncDirectory, SyncFile
from data_plane.testkit.crash_states import cut_choices
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Directory, Inode, Medium
from tests.waiting import PATIENCE_S

TRACES = 200 if os.environ.get("FULL") else 15
OUTCOMES_MAX = 1_500
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = struct.pack("I", 2)
_NAMES = ("a", "b", "c")
FILE_SYSTEMS = {"ext4": (["mkfs.ext4", "-q", "-F"], 32), "xfs": (["mkfs.xfs", "-q", "-f"], 320)}
"""How each is made, and how large in MiB."""

Tree = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Operation:
    """One system call. `size` is a length for a write and a size for a truncation."""

    kind: str
    name: str = ""
    to: str = ""
    position: int = 0
    size: int = 0
    fill: int = 0


def drawn(rng: random.Random) -> list[Operation]:
    """Some operations on a few small files in one directory, about half of them synced."""
    there: list[str] = []
    trace: list[Operation] = []
    for step in range(rng.randint(4, 10)):
        kind = rng.choice(
            ("write", "write", "write", "truncate", "sync", "sync", "rename", "remove", "directory")
        )
        name = rng.choice(there) if there and kind != "write" else rng.choice(_NAMES)
        if kind == "directory":
            trace.append(Operation("directory"))
        elif kind == "write":
            if name not in there:
                there.append(name)
            place, size = rng.choice((0, 300, 512, 1_000)), rng.choice((100, 512, 700))
            trace.append(Operation("write", name, position=place, size=size, fill=step + 1))
        elif name in there and kind == "rename":
            to = rng.choice(_NAMES)
            if to != name:
                there.remove(name)
                there = [other for other in there if other != to] + [to]
                trace.append(Operation("rename", name, to=to))
        elif name in there:
            if kind == "remove":
                there.remove(name)
            trace.append(Operation(kind, name, size=rng.choice((0, 200, 512))))
    return trace


def on_the_model(trace: list[Operation]) -> SimDisk:
    disk = SimDisk(Medium())
    disk.make_directories("d")
    disk.sync_now([SyncDirectory("")])
    for operation in trace:
        path = f"d/{operation.name}"
        if operation.kind == "directory":
            disk.sync_now([SyncDirectory("d")])
        elif operation.kind == "rename":
            disk.rename(path, f"d/{operation.to}")
        elif operation.kind == "remove":
            disk.remove(path)
        else:
            file = disk.open(path, create=True)
            if operation.kind == "write":
                file.write_at(operation.position, [bytes([operation.fill]) * operation.size])
            elif operation.kind == "truncate":
                file.truncate(operation.size)
            else:
                disk.sync_now([SyncFile(file)])
            file.close()
    return disk


def on_a_file_system(trace: list[Operation], directory: Path) -> None:
    for operation in trace:
        path = directory / operation.name
        if operation.kind == "directory":
            sync_directory(directory)
        elif operation.kind == "rename":
            path.rename(directory / operation.to)
        elif operation.kind == "remove":
            path.unlink()
        else:
            file = os.open(path, os.O_RDWR | os.O_CREAT)
            if operation.kind == "write":
                os.pwrite(file, bytes([operation.fill]) * operation.size, operation.position)
            elif operation.kind == "truncate":
                os.ftruncate(file, operation.size)
            else:
                os.fdatasync(file)
            os.close(file)


def sync_directory(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(file)
    os.close(file)


def outcomes(disk: SimDisk) -> list[Tree] | None:
    """Every tree that a cut may leave now; None when there are too many to look at."""
    choices = list(cut_choices(disk.medium, OUTCOMES_MAX + 1))
    if len(choices) > OUTCOMES_MAX:
        return None
    found = []
    for choice in choices:
        directory = disk.medium.after_cut(choice).find("d")
        assert isinstance(directory, Directory)
        found.append({name: bytes(e.data) for name, e in directory.entries.items() if isinstance(e, Inode)})
    return found


def traces() -> Iterator[tuple[list[Operation], list[Tree]]]:
    seed = given = 0
    while given < TRACES:
        seed += 1
        trace = drawn(random.Random(seed))
        possible = outcomes(on_the_model(trace))
        if possible is not None and len(possible) > 1:
            given += 1
            yield trace, possible


class Loop:
    """A file system of its own in a file, that loses its power."""

    def __init__(self, kind: str, where: Path) -> None:
        make, size_mib = FILE_SYSTEMS[kind]
        self._image = where / f"{kind}.image"
        self.root = where / kind
        self.root.mkdir()
        with self._image.open("wb") as image:
            image.truncate(size_mib << 20)
        run([*make, str(self._image)])
        self.mount()

    def mount(self) -> None:
        run(["mount", "-o", "loop", str(self._image), str(self.root)])

    def unmount(self) -> None:
        run(["umount", str(self.root)])

    def lose_power(self) -> None:
        root = os.open(self.root, os.O_RDONLY)
        fcntl.ioctl(root, _SHUTDOWN, _NO_LOG_FLUSH)
        os.close(root)
        self.unmount()
        self.mount()


def run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except FileNotFoundError:
        pytest.fail(f"{command[0]} is missing: see packaging/debian-testing.txt")
    if done.returncode:
        pytest.fail(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")


@pytest.fixture(params=FILE_SYSTEMS)
def loop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Loop]:
    if os.geteuid() != 0:
        pytest.skip("mounting a file system takes the rights of root")
    made = Loop(request.param, tmp_path)
    yield made
    made.unmount()


@pytest.mark.optional_peer
@pytest.mark.slow
def test_what_a_power_cut_leaves_is_among_what_the_model_may_leave(loop: Loop) -> None:
    left_behind = 0
    for number, (trace, possible) in enumerate(traces()):
        directory = loop.root / f"trace-{number}"
        directory.mkdir()
        sync_directory(directory)
        sync_directory(loop.root)
        on_a_file_system(trace, directory)
        before = read(directory)
        loop.lose_power()
        found = read(directory)
        assert found in possible, f"{trace}\nleft {brief(found)}, which the model never leaves"
        left_behind += found != before
    assert left_behind > TRACES // 10, "cuts lost something, else they show nothing"


def test_the_model_would_be_found_out() -> None:
    """An outcome that loses what was synced is in none of the model's."""
    trace = [Operation("write", "a", size=600, fill=7), Operation("sync", "a"), Operation("directory")]
    possible = outcomes(on_the_model([*trace, Operation("write", "a", size=100, fill=9)]))
    assert possible is not None
    assert {"a": bytes([7]) * 600} in possible
    assert {} not in possible
    assert {"a": bytes(600)} not in possible


def read(directory: Path) -> Tree:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def brief(tree: Tree) -> str:
    return (
        ", ".join(f"{name}: {len(data)} bytes of {sorted(set(data))}" for name, data in tree.items())
        or "nothing"
    )

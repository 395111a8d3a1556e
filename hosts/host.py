"""One host of a run: its zone, its address, its disk and its clock, and the processes on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from hosts.disks import Disk
from hosts.stepping_broker import FILE_VARIABLE, step
from hosts.switch import Wire
from local.processes import own_environment


class Runs(Protocol):
    """A process on a host; `hosts.program.Program` is one."""

    name: str
    kept_down: bool

    @property
    def runs(self) -> bool: ...

    def start(self) -> None: ...

    def kill_soon(self) -> None: ...

    def wait_gone(self) -> None: ...


class Host:
    """A machine. What runs on it goes by its clock, if it looks at it, and keeps its files in `data`."""

    def __init__(self, name: str, zone: str, wire: Wire, folder: Path, disk: Disk | None = None) -> None:
        """Without a disk of its own it keeps files in its folder, and can lose no power."""
        self.name = name
        self.zone = zone
        self.wire = wire
        self.folder = folder
        self.disk = disk
        self.programs: list[Runs] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._clock_file = folder / "clock"
        self.step_clock(0)

    @property
    def address(self) -> str:
        return self.wire.address

    @property
    def data(self) -> Path:
        """Where its processes keep what has to outlive them."""
        return self.folder if self.disk is None else self.disk.point

    @property
    def environment(self) -> Mapping[str, str]:
        """What its processes are started with."""
        return own_environment() | {FILE_VARIABLE: str(self._clock_file)}

    def step_clock(self, milliseconds: int) -> None:
        """From soon on its wall clock is so far from the machine's, for brokers that were started to look at it."""
        step(self._clock_file, milliseconds)

    # -- the whole host ----------------------------------------------------------------------------------------

    def fail(self) -> None:
        """Everything on it is killed at once and stays down; its disk keeps what was written."""
        for program in self.programs:
            program.kept_down = True
            program.kill_soon()
        for program in self.programs:
            program.wait_gone()

    def come_back(self) -> None:
        """Everything is started again."""
        for program in self.programs:
            program.start()
            program.kept_down = False

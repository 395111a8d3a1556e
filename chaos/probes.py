"""Which faults this machine allows: each kind is tried for real before the run; what fails is reported as it failed."""

import shutil
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

from chaos.faults import NEED_ETCD, NEED_POWER_CUTS, Kind
from hosts.commands import CommandFailed, find, run
from hosts.disks import MIB, Disk
from hosts.switch import Switch

_NEED_CUTS = (
    *(Kind.CUT, Kind.CUT_INWARDS, Kind.CUT_OUTWARDS, Kind.LEADER_CUT, Kind.STORE_CUT),
    *(Kind.ZONE_CUT_INWARDS, Kind.ZONE_CUT_OUTWARDS, Kind.STORE_LEADER_CUT),
)
_PROBE_HOST = 200
_DISK_BYTES = 320 * MIB
"""The least that mkfs.xfs takes, and some more."""
_SYNC = "import os,sys; os.fsync(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT))"
_SLOW_S = 0.3
_REACHED_S = 15.0
"""A new host may lose the first packets, and a busy machine takes its time."""
_SILENT_S = 0.3


class Probes:
    """Tries in a folder that is gone afterwards. `unavailable` tells, by kind, the command and its words."""

    def __init__(self, folder: Path, switch: Switch, wanted: Collection[Kind], *, etcd: bool) -> None:
        """Of the kinds wanted, those that are not tried are taken to work."""
        self.unavailable: dict[Kind, str] = {}
        self.disks: list[str] = []
        """File systems that a broker's disk may have and that bear a power cut."""
        self._folder = folder
        self._switch = switch
        self._wanted = wanted
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._try(self._packets, *_NEED_CUTS)
            self._try(self._loss, Kind.LOSS)
            self._try(self._full, Kind.DISK_FULL)
            self._try(self._sync_error, Kind.SYNC_ERROR)
            self._try(self._slow_sync, Kind.SLOW_DISK)
            self._try(lambda: self._power_cut("ext4"), Kind.POWER_CUT_EXT4, *NEED_POWER_CUTS)
            self._try(lambda: self._power_cut("xfs"), Kind.POWER_CUT_XFS)
        finally:
            shutil.rmtree(folder)
        if self.disks:
            for kind in NEED_POWER_CUTS:
                self.unavailable.pop(kind, None)  # any file system that bears it will do
        if etcd:
            self._try(lambda: _expect(bool(find("etcd")), ("etcd",), "not found"), *NEED_ETCD)
        else:
            self.unavailable |= dict.fromkeys(NEED_ETCD, "the metadata of this run is in SQLite")

    @property
    def available(self) -> list[Kind]:
        """Those wanted that work."""
        return [kind for kind in Kind if kind in self._wanted and kind not in self.unavailable]

    def _try(self, probe: Callable[[], None], *kinds: Kind) -> None:
        if not any(kind in self._wanted for kind in kinds):
            return
        try:
            probe()
        except CommandFailed as failed:
            self.unavailable |= dict.fromkeys(kinds, str(failed))
        except OSError as failed:
            self.unavailable |= dict.fromkeys(kinds, f"{probe.__name__.strip('_')}: {failed}")

    # -- one a mechanism -------------------------------------------------------------------------------------------

    def _packets(self) -> None:
        wire = self._switch.connect("probe", _PROBE_HOST)
        ping = (sys.executable, "-c", _CONNECT, wire.address, str(_REACHED_S))
        unheard = (*ping[:-1], str(_SILENT_S))
        _expect(run(*ping).strip() == "refused", ping, "the host is not reached")
        wire.cut(outwards=False)
        _expect(
            run(*unheard).strip() == "silent", ("iptables", "-A", "INPUT", "-j", "DROP"), "packets still pass"
        )
        wire.heal()
        _expect(run(*ping).strip() == "refused", ("iptables", "-F"), "the cut does not heal")
        run("ip", "netns", "delete", wire.name)

    def _loss(self) -> None:
        wire = self._switch.connect("probe-loss", _PROBE_HOST + 1)
        wire.lose(0.1)
        wire.heal()
        run("ip", "netns", "delete", wire.name)

    def _full(self) -> None:
        disk = Disk("tmpfs", self._folder / "full.img", self._folder / "full")
        try:
            disk.fill(MIB)
            disk.drain()
        finally:
            disk.unmount()

    def _sync_error(self) -> None:
        command = self._traced("error=EIO")
        try:
            run(*command)
        except CommandFailed as failed:
            if "Input/output error" not in failed.words:
                raise
            return
        raise CommandFailed(command, "the fsync did not fail")

    def _slow_sync(self) -> None:
        command = self._traced(f"delay_enter={int(_SLOW_S * 1e6)}")
        began = time.monotonic()
        run(*command)
        _expect(time.monotonic() - began >= _SLOW_S, command, "the fsync was not slower")

    def _traced(self, inject: str) -> tuple[str, ...]:
        return (
            *(find("strace"), "-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", f"inject=fsync:{inject}"),
            *(sys.executable, "-c", _SYNC, str(self._folder / "synced")),
        )

    def _power_cut(self, kind: str) -> None:
        disk = Disk(kind, self._folder / f"{kind}.img", self._folder / kind, _DISK_BYTES)
        try:
            synced, unsynced = disk.point / "synced", disk.point / "unsynced"
            run(sys.executable, "-c", _WRITE, str(synced), "sync")
            run(sys.executable, "-c", _WRITE, str(unsynced), "")
            disk.cut_power()
            disk.restore()
            _expect(
                synced.read_text() == "kept" and not unsynced.exists(),
                ("ioctl", "0x8004587D", str(disk.point)),
                "what was not synced is still there, or what was is gone",
            )
        finally:
            disk.unmount()
        self.disks.append(kind)


_WRITE = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(file, b"kept")
if sys.argv[2]:
    os.fsync(file)
    os.fsync(os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY))
"""
_CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), timeout=float(sys.argv[2]))
except ConnectionRefusedError:
    print("refused")
except TimeoutError:
    print("silent")
"""


def _expect(holds: bool, command: tuple[str, ...], words: str) -> None:
    if not holds:
        raise CommandFailed(command, words)

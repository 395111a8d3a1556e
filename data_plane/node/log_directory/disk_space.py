"""The disk's free space and its watermarks: what is refused below each, and a ballast for recovery (RL128).

ample --below the soft watermark--> tight: what was set aside as damaged goes, then what retention deletes, then produce
    is refused; all else goes on
tight --below the hard watermark--> read-only: nothing is written but what frees space

*Full* is a disk that is read-only, or on which a write just found no space: no other broker should wait for this one.
"""

from collections.abc import Callable

from data_plane.disk.port import Disk, DiskFault
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.quarantine import Quarantine
from penstock.contract.limits import MIB

BALLAST_FILE = "ballast"
SOFT_FREE_PERCENT_MAX = 10
HARD_FREE_PERCENT_MAX = 3
"""However much is asked for to be free: a disk is never tight below 90 % or read-only below 97 %."""
_LOOKS_FOR_RETENTION = 10
"""How many looks retention has to free space before produce is refused."""

_MORE_BYTES = MIB
"""With so much more free than when a write found no space there is space again; 3 % of a small disk are enough."""
_LOOKS_UNTIL_TRIED = 10
"""And after so many looks it is tried again: not everything that a disk runs out of is counted in bytes."""


class DiskSpace:
    """Of one log directory. `look` is called often; the texts say why something is refused, empty when it is not."""

    def __init__(self, config: NodeConfig, disk: Disk, quarantine: Quarantine) -> None:
        self._config = config
        self._disk = disk
        self._quarantine = quarantine
        self.refuses_writes = ""
        self.read_only = ""
        self.ballast_freed = 0
        """How often the ballast was given up."""
        self._listeners: list[Callable[[], None]] = []
        self._looks = 0
        self._holds_ballast = False
        self._lacking = ""
        self._lacking_free = self._lacking_looks = 0

    def listen(self, changed: Callable[[], None]) -> None:
        """`changed` is called when the disk has become full, and when it no longer is."""
        self._listeners.append(changed)

    def _changed(self) -> None:
        for changed in self._listeners:
            changed()

    @property
    def full(self) -> str:
        """Why this broker takes nothing now; empty while it does."""
        return self.read_only or self._lacking

    def lacked(self) -> None:
        """A write has found no space."""
        before, self._lacking_looks = self.full, 0
        self._lacking_free = self._disk.usage().free_bytes
        self._lacking = f"a write found no space on the disk, {self._lacking_free} bytes free"
        if not before:
            self._changed()

    def look(self, delete_due: Callable[[], int]) -> None:
        """`delete_due` begins what retention has to delete and returns how many partitions that is in."""
        before = bool(self.full)
        self._look(delete_due)
        if bool(self.full) is not before:
            self._changed()

    def _look(self, delete_due: Callable[[], int]) -> None:
        usage = self._disk.usage()
        soft = min(self._config.disk_soft_free_bytes, usage.total_bytes * SOFT_FREE_PERCENT_MAX // 100)
        hard = min(self._config.disk_hard_free_bytes, usage.total_bytes * HARD_FREE_PERCENT_MAX // 100)
        if usage.free_bytes < soft and self._quarantine.give_up():
            usage = self._disk.usage()
        free = usage.free_bytes
        self.read_only = (
            f"the disk has {free} bytes free, {hard} required for any write" if free < hard else ""
        )
        self._lacking_looks += 1
        more = min(_MORE_BYTES, usage.total_bytes * HARD_FREE_PERCENT_MAX // 100)
        if free >= self._lacking_free + more or self._lacking_looks >= _LOOKS_UNTIL_TRIED:
            self._lacking = ""
        if free >= soft:
            self.refuses_writes = ""
            self._looks = 0
            self._keep_ballast(free - soft)
            return
        self._looks += 1
        deleting = delete_due() > 0 and self._looks <= _LOOKS_FOR_RETENTION
        if not deleting or self.read_only:
            self.refuses_writes = f"the disk has {free} bytes free, {soft} required for writes"

    def before_recovery(self) -> None:
        """On a disk that is nearly full the ballast's space is freed first."""
        usage = self._disk.usage()
        if usage.free_bytes < usage.total_bytes * HARD_FREE_PERCENT_MAX // 100:
            self.free_ballast()

    def free_ballast(self) -> bool:
        """Free the ballast's space for what needs it now; False when there is none."""
        if not self._disk.exists(BALLAST_FILE):
            return False
        self._disk.remove(BALLAST_FILE)
        self._holds_ballast = False
        self.ballast_freed += 1
        return True

    def _keep_ballast(self, spare_bytes: int) -> None:
        """Reserve it again when there is twice its size to spare."""
        size = self._config.ballast_bytes
        if self._holds_ballast or not size or spare_bytes < 2 * size:
            return
        try:
            self._disk.reserve(BALLAST_FILE, size)
        except DiskFault:
            self._disk.remove(BALLAST_FILE)
            return
        self._holds_ballast = True

"""The birth of a log's directory: made before the first file is written into it, and durable before anything depends on
it (RL125).

    unmade --make--> made --the steps of `begin` were synced, `end`--> durable

A log that was never written to needs no directory. A replica that has none, and of which neither a checkpoint nor the
journal knows, is empty.
"""

from data_plane.disk.port import Disk, File, SyncDirectory, SyncFile, SyncStep
from data_plane.log import layout
from data_plane.log.identity import Identity, write_identity


class Birth:
    """`made`: the directory is there, with `partition.json`; `durable`: it survives a power cut."""

    def __init__(
        self, disk: Disk, directory: str, identity: Identity, *, made: bool = False, durable: bool = False
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._identity = identity
        self.made = made
        self.durable = durable
        self._file: File | None = None
        """Open from the write to the sync (RL126), and as long as steps that name it may still be synced."""
        self._begun = 0

    def make(self) -> None:
        """Make the directory, unless it is there. Raises `DiskFull`: a part of it that stays is unborn."""
        if not self.made:
            self._disk.make_directories(self._directory)
            self._file = write_identity(self._disk, self._directory, self._identity)
            self.made = True

    def begin(self) -> tuple[SyncStep, ...]:
        """Steps that make the directory durable, none if it is. Then `end` or `give_up`. Raises `DiskFull`."""
        if self.durable:
            return ()
        self.make()
        if self._file is None:
            self._file = self._disk.open(f"{self._directory}/{layout.PARTITION_FILE}")
        self._begun += 1
        steps: list[SyncStep] = [SyncFile(self._file)]
        path = self._directory
        while path:
            steps.append(SyncDirectory(path))
            path = layout.parent(path)
        return (*steps, SyncDirectory(""))

    def end(self) -> None:
        """The steps were synced."""
        self.durable = True
        self.give_up()

    def give_up(self) -> None:
        """They will not be synced any more, or were."""
        self._begun -= 1
        if self.durable and not self._begun:
            self.close()

    def close(self) -> None:
        """Nothing is synced any more."""
        if self._file is not None:
            self._file.close()
            self._file = None

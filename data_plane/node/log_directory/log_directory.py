"""The log directory of one broker: opened once, then its free space is watched and what was set aside in it is kept."""

from data_plane.log.tail import TailBudget
from data_plane.metadata.image import ClusterImage
from data_plane.node.environment import Environment
from data_plane.node.log_directory.boot import Boot, Booted
from data_plane.node.log_directory.directory import Directory, open_directory
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.node.log_directory.stray_directories import StrayDirectories


class LogDirectory:
    """Composes the wing."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        config, disk = environment.config, environment.disk
        self.tail = TailBudget(config.tail_bytes)
        """What the logs keep of their ends in memory, all of them together."""
        self.strays = StrayDirectories(disk, config.stray_keep_ms)
        self.quarantine = Quarantine(disk, config.damaged_keep_ms)
        self.disk_space = DiskSpace(config, disk, self.quarantine)

    def open(self, image: ClusterImage) -> tuple[Directory, Booted]:
        """Open every partition on the disk whose topic the image knows; the others become strays (RL53). Raises
        `DiskFull`, `DiskFault`, `WrongDirectory`.

        Blocking: the broker serves nothing yet.
        """
        environment = self._environment
        directory = open_directory(environment.disk, environment.config, environment.rng)
        self.disk_space.before_recovery()
        boot = Boot(
            environment.disk,
            environment.config,
            image,
            directory,
            self.strays,
            self.tail,
            now_ms=environment.clock.now_ms(),
            monotonic_ms=environment.clock.monotonic_ms(),
        )
        return directory, boot.run()

"""What an operator should look at on one broker: in words by kind, and as numbers for metrics."""

from data_plane.controller.clocks import FAR_OFF_MS
from data_plane.metadata.image import ClusterImage
from data_plane.node.config import NodeConfig
from data_plane.node.control.controller_seat import ControllerSeat
from data_plane.node.log_directory.log_directory import LogDirectory
from data_plane.node.membership.located import located
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.replicas.retention import Retention
from data_plane.node.replicas.step_aside import StepAside
from data_plane.replication.health import ReadOnly, reason_of
from penstock.rules.domains import warnings

_NAMED_MAX = 5


class Conditions:
    """Looks at the parts of a running node; changes nothing."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaSet,
        log_directory: LogDirectory,
        control: ControllerSeat,
        retention: Retention,
        step_aside: StepAside,
        image: ClusterImage,
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._log_directory = log_directory
        self._control = control
        self._retention = retention
        self._step_aside = step_aside
        self._image = image

    def by_kind(self) -> dict[str, str]:
        """Kind -> what is wrong. Empty when all is well."""
        found: dict[str, str] = {}
        off_ms = self._control.clock_off_ms
        if not self._retention.clock_trusted:
            far = abs(off_ms or 0) > FAR_OFF_MS
            found["clock"] = (
                f"the wall clock is {off_ms} ms off the middle of the cluster's,"
                f" at most {self._config.timings.clock_off_ms_max} allowed; nothing is deleted for its age"
                + (", and this broker leads nothing that another one can lead" if far else "")
            )
        space = self._log_directory.disk_space
        if space.full or space.refuses_writes:
            found["disk"] = space.full or space.refuses_writes
        if self._step_aside.slow:
            found["slow disk"] = self._step_aside.reason
        if self._log_directory.strays.count:
            found["strays"] = (
                f"{self._log_directory.strays.count} directories that the metadata does not know are set aside"
            )
        broken = [f"{replica.name}: {reason_of(replica.health)}" for replica in self._replicas.unsound]
        if broken:
            more = f" and {len(broken) - _NAMED_MAX} more" if len(broken) > _NAMED_MAX else ""
            found["damage"] = "; ".join(broken[:_NAMED_MAX]) + more
        if self._misplaced:
            found["failure domain"] = self._misplaced
        return found

    @property
    def _misplaced(self) -> str:
        """What is wrong with the zone or host of this broker, as it is registered."""
        return "; ".join(warnings(located(self._image)).get(self._config.broker_id, ()))

    def gauges(self) -> dict[str, int]:
        """By name of the metric."""
        space = self._log_directory.disk_space
        return {
            "strays": self._log_directory.strays.count,
            "damaged_files": self._log_directory.quarantine.count,
            "damaged_files_bytes": self._log_directory.quarantine.size_bytes,
            "clock_off_ms": self._control.clock_off_ms or 0,
            "clock_trusted": int(self._retention.clock_trusted),
            "disk_refuses_writes": int(bool(space.refuses_writes)),
            "disk_read_only": int(bool(space.read_only)),
            "failure_domain_wrong": int(bool(self._misplaced)),
            "disk_slow": int(self._step_aside.slow),
            "replicas_without_writes": sum(
                isinstance(replica.health, ReadOnly) for replica in self._replicas.unsound
            ),
        }

"""Composes the replicas of one broker: made durable, replicated, assigned, repaired, trimmed and removed."""

from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.metadata.port import MetaStore
from data_plane.node.environment import Environment
from data_plane.node.log_directory.boot import Booted
from data_plane.node.log_directory.log_directory import LogDirectory
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Caller, Connection
from data_plane.node.replicas.assignment import Assignment
from data_plane.node.replicas.catch_up import CatchUp
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.follower_stream import FollowerStream
from data_plane.node.replicas.housekeeping import Housekeeping
from data_plane.node.replicas.in_sync_writer import InSyncWriter
from data_plane.node.replicas.leader_links import LeaderLinks, Spawn
from data_plane.node.replicas.removal import LastReadings, Removal
from data_plane.node.replicas.repair import Repair
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.replicas.retention import MayDelete, Retention
from data_plane.node.replicas.step_aside import StepAside


class Hosting:
    """`tasks` run as long as the broker does; `replicate` serves followers on the internal listener."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        replicas: ReplicaSet,
        log_directory: LogDirectory,
        booted: Booted,
        last_readings: LastReadings,
        clock_off_ms: Callable[[], int | None],
        may_delete: MayDelete,
        spawn: Spawn,
    ) -> None:
        """`clock_off_ms`, `may_delete`: see `Retention`."""
        self._environment = environment
        self._view = view
        self._replicas = replicas
        self._last_readings = last_readings
        config, clock, stats, image = environment.config, environment.clock, environment.stats, view.image
        disk_space, due = log_directory.disk_space, DueWork()
        self.trim = due.trim
        self.catch_up = CatchUp(config.catch_up_bytes_per_s, clock, stats)
        self.committer = Committer(
            environment.disk,
            booted.journal,
            config,
            clock,
            stats,
            self.open_logs,
            disk_space,
            environment.begin_turn,
        )
        self.in_sync = InSyncWriter(config, view, registration, store, clock, stats)
        self.step_aside = StepAside(
            config, view, registration, store, clock, stats, self.committer, disk_space
        )
        links = LeaderLinks(
            environment,
            image=image,
            registration=registration,
            committer=self.committer,
            due=due,
            disk_space=disk_space,
            step_aside=self.step_aside,
            spawn=spawn,
        )
        self._removal = Removal(
            environment,
            image=image,
            replicas=replicas,
            due=due,
            committer=self.committer,
            last_readings=last_readings,
        )
        self.assignment = Assignment(
            config.broker_id,
            image=image,
            registration=registration,
            replicas=replicas,
            due=due,
            links=links,
            removal=self._removal,
        )
        repair = Repair(
            environment,
            image=image,
            store=store,
            replicas=replicas,
            due=due,
            committer=self.committer,
            quarantine=log_directory.quarantine,
            links=links,
            assignment=self.assignment,
        )
        self._housekeeping = Housekeeping(
            environment,
            image=image,
            replicas=replicas,
            due=due,
            committer=self.committer,
            in_sync=self.in_sync,
            links=links,
            assignment=self.assignment,
            repair=repair,
            removal=self._removal,
            log_directory=log_directory,
        )
        self.retention = Retention(
            config, replicas, due, log_directory, clock, stats, clock_off_ms, may_delete
        )
        self._housekeeping.take_over(booted)

    def open_logs(self) -> list[Replica]:
        """Every replica whose log is open: those of deleted topics that wait for their last reading included."""
        return [*self._replicas.all(), *self._last_readings.waiting_replicas()]

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (
            self.committer.run(),
            self.committer.run_flushes(),
            self.committer.run_checkpoints(),
            self._housekeeping.run(),
            self._housekeeping.run_births(),
            self._removal.run(),
            self.in_sync.run(),
            self.retention.run(),
            self.step_aside.run(),
        )

    async def replicate(self, caller: Caller, connection: Connection) -> None:
        """One follower broker's stream."""
        environment = self._environment
        await FollowerStream(
            caller,
            connection,
            environment.config,
            self._view.image,
            self._replicas.find,
            environment.disk,
            environment.clock,
            environment.stats,
            catch_up=self.catch_up,
            begin_turn=environment.begin_turn,
        ).serve()

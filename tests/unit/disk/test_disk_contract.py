"""The real and the simulated disk keep the Disk contract."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from data_plane.broker.disk import RealDisk
from data_plane.disk.port import Disk
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Medium
from tests.waiting import PATIENCE_S

from .disk_contract import DiskContract, DiskWorld


class LocalWorld(DiskWorld):
    def __init__(self, root: Path) -> None:
        self._root = root
        self.disks: list[RealDisk] = []

    def open(self) -> RealDisk:
        disk = RealDisk(self._root)
        self.disks.append(disk)
        return disk

    def leave(self, disk: Disk) -> None:
        assert isinstance(disk, RealDisk)
        disk.close()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(scenario, PATIENCE_S))


class SimulatedWorld(DiskWorld):
    def __init__(self) -> None:
        self._medium = Medium()

    def open(self) -> SimDisk:
        return SimDisk(self._medium)

    def leave(self, disk: Disk) -> None:
        assert isinstance(disk, SimDisk)
        disk.kill()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        loop = SimLoop(1, put_off_chance=0.1, time_limit_s=30)
        try:
            loop.run_until_complete(scenario)
        finally:
            loop.close()


class TestRealDisk(DiskContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[DiskWorld]:
        world = LocalWorld(tmp_path)
        yield world
        for disk in world.disks:
            disk.close()


class TestSimulatedDisk(DiskContract):
    @pytest.fixture
    def world(self) -> DiskWorld:
        return SimulatedWorld()

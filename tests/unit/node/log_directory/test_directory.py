"""A log directory knows whose it is, and a clean stop is believed once (RL46, RL54)."""

from dataclasses import replace

import pytest

from data_plane.disk.port import SyncFile
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory.directory import CLEAN_FILE, WrongDirectory, mark_clean, open_directory
from data_plane.testkit.crash_states import explore_crashes
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Medium
from data_plane.testkit.rng import SimRng
from penstock.contract.ids import BrokerId

CONFIG = NodeConfig(
    broker_id=BrokerId(1),
    cluster_id="here",
    client_address="b1:9092",
    internal_address="b1:9093",
    peer_address="b1:9094",
    zone="z1",
    peppers={1: b"pepper of the simulation" * 2},
)


def stopped_cleanly() -> SimDisk:
    disk = SimDisk(Medium())
    open_directory(disk, CONFIG, SimRng(1))
    mark_clean(disk, 7)
    disk.kill()
    return SimDisk(disk.medium)


def test_a_directory_of_another_cluster_or_broker_is_refused() -> None:
    for other in (replace(CONFIG, cluster_id="elsewhere"), replace(CONFIG, broker_id=BrokerId(2))):
        with pytest.raises(WrongDirectory):
            open_directory(stopped_cleanly(), other, SimRng(1))


def test_a_directory_keeps_its_id_over_restarts_and_an_empty_one_gets_another() -> None:
    disk = stopped_cleanly()
    first = open_directory(disk, CONFIG, SimRng(2)).directory_id
    disk.kill()
    assert open_directory(SimDisk(disk.medium), CONFIG, SimRng(3)).directory_id == first
    assert open_directory(SimDisk(Medium()), CONFIG, SimRng(4)).directory_id != first


def test_the_clean_marker_is_gone_for_good_before_anything_is_written() -> None:
    disk = stopped_cleanly()
    written = [False]

    def operate() -> None:
        assert open_directory(disk, CONFIG, SimRng(2)).clean
        written[0] = True
        file = disk.open("data", create=True)
        file.write_at(0, [b"new"])
        disk.sync_now([SyncFile(file)])

    def check(left: SimDisk, at: str) -> None:
        assert not (written[0] and left.exists(CLEAN_FILE)), at

    assert explore_crashes(disk, operate, check).exhaustive


def test_what_was_stopped_cleanly_is_known_to_be_so_only_once() -> None:
    disk = stopped_cleanly()
    assert open_directory(disk, CONFIG, SimRng(2)).clean
    disk.kill()
    assert not open_directory(SimDisk(disk.medium), CONFIG, SimRng(3)).clean

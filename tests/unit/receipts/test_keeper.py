"""The keeper writes behind the producer's back, tells when it cannot, and ends with everything on disk."""

import logging
import threading
from pathlib import Path

import pytest

from penstock.contract.errors import ReceiptsNotWritten
from penstock.receipts import keeper as keeper_module
from penstock.receipts import read_receipts
from penstock.receipts.keeper import ReceiptsKeeper
from tests.waiting import PATIENCE_S

from .files import DAY, ORDERS, ORDERS_0, FailingDisk

DAY_MS = 86_400_000


def enter(
    keeper: ReceiptsKeeper,
    first: int,
    messages: int = 1,
    size: int = 61,
    accepted_ms: int = DAY * DAY_MS,
    epoch: int = 3,
) -> None:
    keeper.acknowledged(
        "orders",
        ORDERS,
        0,
        first_offset=first,
        messages=messages,
        size=size,
        accepted_ms=accepted_ms,
        leader_epoch=epoch,
    )


def ranges(path: Path) -> list[tuple[int, int, int]]:
    return [
        (held.first_offset, held.end_offset, held.bytes)
        for held in read_receipts(path).ranges.get(ORDERS_0, ())
    ]


class Watched(FailingDisk):
    """Tells when it has synced, and can be held."""

    def __init__(self) -> None:
        super().__init__()
        self.synced = threading.Event()
        self.refused = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def write_at(self, fd: int, data: bytes | memoryview, at: int) -> int:
        assert self.may_go_on.wait(PATIENCE_S)
        try:
            return super().write_at(fd, data, at)
        except OSError:
            self.refused.set()
            raise

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.synced.set()


def test_a_producer_that_was_acknowledged_nothing_starts_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    keeper = ReceiptsKeeper(tmp_path / "receipts", -1)
    assert threading.active_count() == before
    keeper.close()
    keeper.close()
    assert read_receipts(tmp_path / "receipts").ranges == {}


def test_receipts_are_on_disk_without_a_close(tmp_path: Path) -> None:
    path, disk = tmp_path / "receipts", Watched()
    keeper = ReceiptsKeeper(path, -1, disk)
    disk.synced.clear()
    enter(keeper, 0, 3, 100)
    enter(keeper, 3, 2, 80)
    assert disk.synced.wait(PATIENCE_S)
    assert ranges(path) == [(0, 5, 180)]
    disk.synced.clear()
    enter(keeper, 5)
    assert disk.synced.wait(PATIENCE_S)
    assert ranges(path) == [(0, 6, 241)]
    keeper.close()


def test_many_batches_are_few_writes(tmp_path: Path) -> None:
    disk = FailingDisk()
    keeper = ReceiptsKeeper(tmp_path / "receipts", -1, disk)
    for at in range(10_000):
        enter(keeper, at)
    keeper.close()
    assert ranges(tmp_path / "receipts") == [(0, 10_000, 610_000)]
    assert len(disk.steps) < 100, disk.steps


def test_while_the_disk_stands_still_no_sender_waits_and_nothing_is_lost(tmp_path: Path) -> None:
    path, disk = tmp_path / "receipts", Watched()
    keeper = ReceiptsKeeper(path, -1, disk)
    disk.may_go_on.clear()
    for at in range(1_000):
        enter(keeper, at)
    disk.may_go_on.set()
    keeper.close()
    assert ranges(path) == [(0, 1_000, 61_000)]


def test_a_full_disk_is_told_once_and_cured_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "RETRY_MS", 1)
    path, disk = tmp_path / "receipts", Watched()
    keeper = ReceiptsKeeper(path, -1, disk)
    disk.refuse = ("write",)
    with caplog.at_level(logging.WARNING):
        for at in range(3):
            disk.refused.clear()
            enter(keeper, at)
            assert disk.refused.wait(PATIENCE_S)
        disk.refuse = ()
        keeper.close()
    told = [record.message for record in caplog.records]
    assert len([line for line in told if "No space left on device" in line]) == 1, told
    assert told[-1].endswith("written again")
    assert ranges(path) == [(0, 3, 183)]


def test_a_disk_that_stays_full_is_an_error_on_close_and_the_file_is_whole(tmp_path: Path) -> None:
    path, disk = tmp_path / "receipts", FailingDisk()
    keeper = ReceiptsKeeper(path, -1, disk)
    enter(keeper, 0)
    disk.refuse = ("write", "sync")
    with pytest.raises(
        ReceiptsNotWritten, match="No space left on device; receipts of acknowledged messages are"
    ):
        keeper.close()
    keeper.close()
    assert ranges(path) == []
    ReceiptsKeeper(path, -1).close()


def test_a_disk_that_never_answers_does_not_hold_up_a_close_without_end(tmp_path: Path) -> None:
    disk = Watched()
    keeper = ReceiptsKeeper(tmp_path / "receipts", -1, disk)
    disk.may_go_on.clear()
    enter(keeper, 0)
    keeper.close_s = 0.01
    with pytest.raises(ReceiptsNotWritten, match=r"the disk did not take them within 0\.01 s"):
        keeper.close()
    disk.may_go_on.set()
    keeper.close_s = PATIENCE_S
    keeper.close()


def test_days_and_epochs_stand_apart_and_midnight_divides(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    keeper = ReceiptsKeeper(path, 1)
    enter(keeper, 0, accepted_ms=DAY * DAY_MS - 1)
    enter(keeper, 1, accepted_ms=DAY * DAY_MS)
    enter(keeper, 2, accepted_ms=DAY * DAY_MS + 1)
    enter(keeper, 3, accepted_ms=DAY * DAY_MS + 2, epoch=4)
    keeper.close()
    assert [
        (held.first_offset, held.end_offset, str(held.day), held.leader_epoch, held.acks)
        for held in read_receipts(path).ranges[ORDERS_0]
    ] == [(0, 1, "2024-10-03", 3, 1), (1, 3, "2024-10-04", 3, 1), (3, 4, "2024-10-04", 4, 1)]


def test_nonsense_from_a_broker_neither_stops_the_keeper_nor_spoils_the_file(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    keeper = ReceiptsKeeper(path, -1)
    for first in (-1, -(2**63), 2**63 - 1):
        enter(keeper, first)
    enter(keeper, 0, accepted_ms=-(2**63), epoch=-(2**31))
    enter(keeper, 1, accepted_ms=2**63 - 1, epoch=2**31 - 1)
    enter(keeper, 2**63 - 2)
    keeper.close()
    found = read_receipts(path).ranges[ORDERS_0]
    assert [(held.first_offset, str(held.day), held.leader_epoch) for held in found] == [
        (0, "1970-01-01", -1),
        (1, "9999-12-31", 2**31 - 1),
        (2**63 - 2, "2024-10-04", 3),
    ]


def test_what_comes_after_the_close_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    keeper = ReceiptsKeeper(path, -1)
    keeper.close()
    enter(keeper, 0)
    assert ranges(path) == []

"""Receipts files that tests write batch by batch, and a disk that fails where it is told."""

from pathlib import Path

from penstock.contract.ids import TopicId, TopicPartition
from penstock.receipts.file import RealDisk, ReceiptsFile
from penstock.receipts.spans import SpanKey, Spans

ORDERS, PAYMENTS = bytes(range(16)), bytes(range(16, 32))
NAMES = {ORDERS: "orders", PAYMENTS: "payments"}
ORDERS_0 = TopicPartition(TopicId(ORDERS), 0)
DAY = 20_000
"""2024-10-04."""

Batch = tuple[SpanKey, int, int, int]


def key(
    topic_id: bytes = ORDERS, partition: int = 0, day: int = DAY, epoch: int = 3, acks: int = -1
) -> SpanKey:
    return SpanKey(topic_id, partition, day, epoch, acks)


def spans_of(*batches: Batch) -> Spans:
    spans = Spans()
    for batch in batches:
        spans.add(*batch)
    return spans


def write(path: Path, *appends: list[Batch]) -> None:
    """A file that was appended to so many times and closed."""
    file = ReceiptsFile(path)
    for batches in appends:
        file.append(spans_of(*batches), NAMES)
    file.sync()
    file.close()


class Stopped(BaseException):
    """The process ends here."""


class FailingDisk(RealDisk):
    """Counts its steps. `stop_at`: the step before which the process ends; `refuse_at`: the steps that are refused with
    `error`. A write that is stopped or refused has written its first half.
    """

    def __init__(self, stop_at: int | None = None, refuse: tuple[str, ...] = ()) -> None:
        self.steps: list[str] = []
        self.stop_at = stop_at
        self.refuse = refuse
        """Names of the steps that fail."""

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if self.stop_at == len(self.steps) - 1:
            raise Stopped(name)
        if name in self.refuse:
            raise OSError(28, "No space left on device")

    def write_at(self, fd: int, data: bytes | memoryview, at: int) -> int:
        try:
            self._step("write")
        except BaseException:
            super().write_at(fd, bytes(data)[: len(data) // 2], at)
            raise
        return super().write_at(fd, data, at)

    def truncate(self, fd: int, size: int) -> None:
        self._step("truncate")
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._step("sync")
        super().sync(fd)

    def rename(self, old: str, new: str) -> None:
        self._step("rename")
        super().rename(old, new)

    def sync_folder(self, path: str) -> None:
        self._step("sync folder")
        super().sync_folder(path)

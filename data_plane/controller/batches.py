"""Many writes of partition blocks in few transactions: each as large as every metadata store takes, fenced once."""

from collections.abc import Iterator, Sequence

from data_plane.controller.elections import BlockWrite
from data_plane.metadata.port import CHANGES_PER_TXN_MAX, Compare

BATCH_BYTES_MAX = 500_000
"""Of values in one transaction; etcd takes 1.5 MiB in one request."""


def batched(writes: Sequence[BlockWrite], seat: Sequence[Compare]) -> Iterator[tuple[BlockWrite, ...]]:
    """Cut into runs that fit into one transaction each, together with the compares of `seat`."""
    batch: list[BlockWrite] = []
    compared: dict[str, None] = {}
    size = 0
    for write in writes:
        more = [compare.key for compare in write.compares if compare.key not in compared]
        full = (
            len(compared) + len(more) + len(seat) > CHANGES_PER_TXN_MAX
            or len(batch) == CHANGES_PER_TXN_MAX
            or size + len(write.value) > BATCH_BYTES_MAX
        )
        if batch and full:
            yield tuple(batch)
            batch, compared, size = [], {}, 0
            more = [compare.key for compare in write.compares]
        batch.append(write)
        compared.update((key, None) for key in more)
        size += len(write.value)
    if batch:
        yield tuple(batch)


def all_compares(batch: Sequence[BlockWrite], seat: Sequence[Compare]) -> list[Compare]:
    """What one transaction of the batch compares, each key once: within one image a key has one revision."""
    found = {compare.key: compare for write in batch for compare in write.compares}
    return [*(compare for compare in found.values()), *(c for c in seat if c.key not in found)]

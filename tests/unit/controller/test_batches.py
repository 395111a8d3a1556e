"""Many block writes fit into few transactions, none larger than every metadata store takes."""

from data_plane.controller.batches import BATCH_BYTES_MAX, all_compares, batched
from data_plane.controller.elections import BlockWrite
from data_plane.metadata.port import CHANGES_PER_TXN_MAX, Compare

SEAT = (Compare("/controller", 5), Compare("/live/000001", 3))


def write(number: int, elected: int = 1, size: int = 10) -> BlockWrite:
    key = f"/partitions/{number:06d}"
    return BlockWrite(
        key=key,
        block_revision=number + 1,
        value=b"x" * size,
        compares=(Compare(key, number + 1), Compare(f"/live/{elected:06d}", 3)),
        transitions=(),
    )


def test_every_write_is_in_one_batch_in_order() -> None:
    writes = [write(number, elected=number % 7) for number in range(1_000)]
    batches = list(batched(writes, SEAT))
    assert [w for batch in batches for w in batch] == writes
    assert len(batches) == 10


def test_no_batch_is_larger_than_a_transaction() -> None:
    writes = [write(number, elected=number) for number in range(500)]
    for batch in batched(writes, SEAT):
        compares = all_compares(batch, SEAT)
        assert len(compares) <= CHANGES_PER_TXN_MAX
        assert len({compare.key for compare in compares}) == len(compares)
        assert {*SEAT, *(c for w in batch for c in w.compares)} == set(compares)


def test_large_values_make_small_batches_and_one_that_is_too_large_goes_alone() -> None:
    sizes = [BATCH_BYTES_MAX // 2, BATCH_BYTES_MAX // 2, 1, BATCH_BYTES_MAX * 2, 1]
    batches = batched([write(n, size=size) for n, size in enumerate(sizes)], SEAT)
    assert [[len(w.value) for w in batch] for batch in batches] == [sizes[:2], [1], sizes[3:4], [1]]


def test_nothing_to_write_is_no_batch() -> None:
    assert list(batched([], SEAT)) == []

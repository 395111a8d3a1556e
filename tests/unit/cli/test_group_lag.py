"""Lag counts the messages that a group can still read."""

import pytest

from penstock.cli.groups import _Kept, _partitions
from penstock.client.groups.descriptions import GroupDescription


@pytest.mark.parametrize(
    ("committed", "kept", "lag"),
    [
        (10, _Kept(0, 100), 90),
        (10, _Kept(60, 100), 40),
        (60, _Kept(60, 100), 40),
        (100, _Kept(60, 100), 0),
        (120, _Kept(60, 100), 0),
        (10, _Kept(100, 100), 0),
        (10, None, None),
    ],
)
def test_what_was_deleted_is_not_waited_for(committed: int, kept: _Kept | None, lag: int | None) -> None:
    described = GroupDescription(
        group="g", state="empty", assignor="uniform", epoch=1, members=(), offsets={("orders", 0): committed}
    )
    (row,) = _partitions(described, {} if kept is None else {("orders", 0): kept})
    assert row["lag"] == lag
    assert row["end"] == (None if kept is None else kept.end)

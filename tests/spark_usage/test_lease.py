"""Runners of one host take turns by a lock on a file; `tests/integration/fail_over` has them on PostgreSQL."""

import json
from pathlib import Path

import pytest

from daemon.data_set_store import FolderStore
from spark_usage import configuration
from spark_usage.lease import FileLease, Unavailable, hold_within
from spark_usage.pipeline import Pipeline


def test_of_two_on_one_host_one_has_the_lock_and_the_next_has_a_greater_number(tmp_path: Path) -> None:
    first, second = FileLease(tmp_path / "lock"), FileLease(tmp_path / "lock")
    assert first.hold() and first.hold() and first.number == 1
    assert not hold_within(second, 0.0) and not second.lasts
    first.release()
    assert hold_within(second, 0.0) and second.number == 2
    assert not first.hold()


def test_a_lock_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        hold_within(FileLease(tmp_path / "none" / "lock"), 0.0)
    (tmp_path / "lock").write_text("not a number")
    with pytest.raises(Unavailable, match="lock"):
        FileLease(tmp_path / "lock").hold()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_whose_file_was_removed_is_held_no_longer(tmp_path: Path, replaced: bool) -> None:
    first, second = FileLease(tmp_path / "lock"), FileLease(tmp_path / "lock")
    assert first.hold()
    (tmp_path / "lock").unlink()
    if replaced:
        assert second.hold() and second.lasts
    assert not first.lasts and not first.hold()


def test_a_number_that_is_to_be_exceeded_is_and_the_next_one_is_greater(tmp_path: Path) -> None:
    first = FileLease(tmp_path / "lock")
    with pytest.raises(Unavailable, match="not locked"):
        first.exceed(7)
    assert first.hold()
    for asked, number in ((7, 8), (7, 8), (8, 9)):
        first.exceed(asked)
        assert first.number == number
    first.release()
    assert first.hold() and first.number == 10


@pytest.mark.parametrize("published", [1, 7])
def test_a_runner_whose_lock_file_was_lost_publishes_what_counts(tmp_path: Path, published: int) -> None:
    file = tmp_path / "penstock.json"
    file.write_text(
        json.dumps(
            {
                "brokers": {"bootstrap": ["127.0.0.1:1"]},
                "datasets": str(tmp_path / "datasets"),
                "usage_key_file": str(tmp_path / "usage.key"),
            }
        )
    )
    read = configuration.read(file)
    store = FolderStore(read.datasets)
    earlier = json.dumps({"run_id": "a" * 32, "number": published}).encode()
    store.make_current("usage_day", earlier, published)
    lease = FileLease(read.datasets / "lock")
    assert lease.hold() and lease.number == 1
    Pipeline(read).take_over(lease)
    assert lease.number == published + 1 == store.number("usage_day")
    store.make_current("usage_day", earlier.replace(b"a", b"b"), published)
    assert json.loads(store.current("usage_day") or b"{}")["run_id"] == "a" * 32, (
        "the earlier runner's counts no more"
    )

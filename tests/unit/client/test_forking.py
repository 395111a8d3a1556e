"""What a client that was made before a fork is in the child."""

from __future__ import annotations

from penstock.contract.errors import UsedAfterFork
from tests.unit.client.producing.test_keeping_receipts import Noted
from tests.unit.client.runner import Runner


def test_a_member_of_a_group_that_was_not_used_has_an_id_of_its_own_in_the_child() -> None:
    runner = Runner()
    member = runner.consumer("orders", group="readers").member
    assert member is not None
    before = member.member_id
    assert runner.core.after_fork(None) is None
    assert member.member_id != before


def test_what_was_used_fails_in_the_child_with_all_it_holds() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    delivery = runner.send(runner.producer(linger_ms=1_000), "orders", b"pending")
    error = UsedAfterFork("client: used")
    assert runner.core.after_fork(error) is error
    assert delivery.error is error


def test_a_file_of_receipts_is_not_shared_with_a_child() -> None:
    runner = Runner()
    runner.producer(Noted())
    error = runner.core.after_fork(None)
    assert error is not None
    assert "keeps receipts in a file" in error.message

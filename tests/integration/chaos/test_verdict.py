"""The verdict on what was read finds each thing that must not be."""

import pytest

from penstock import Receipt
from tests.integration.chaos.verdict import Receipts, check_values
from tests.integration.chaos.writers import value_of


def receipts(*places: tuple[int, int, int]) -> Receipts:
    """(number, partition, offset) triples as a writer's receipts."""
    return {number: Receipt("t", partition, offset, 0, False) for number, partition, offset in places}


A, B, C, OTHER = value_of(0, 0), value_of(0, 1), value_of(0, 2), value_of(1, 0)


def test_what_was_acknowledged_and_is_there_in_order_is_well() -> None:
    check_values({0: receipts((0, 0, 0), (2, 1, 0)), 1: receipts((0, 0, 1))}, [[A, OTHER, B], [C]])


def test_an_acknowledged_value_that_is_not_there_is_lost() -> None:
    with pytest.raises(AssertionError, match="1 acknowledged values are lost"):
        check_values({0: receipts((0, 0, 0), (1, 0, 1))}, [[A]])


def test_a_value_that_is_there_twice_is_found_even_unacknowledged() -> None:
    with pytest.raises(AssertionError, match="stored twice"):
        check_values({0: {}}, [[A], [A]])


def test_values_of_one_writer_out_of_order_are_found() -> None:
    with pytest.raises(AssertionError, match="out of order"):
        check_values({0: {}}, [[B, A]])


def test_a_value_elsewhere_than_its_receipt_says_is_found() -> None:
    with pytest.raises(AssertionError, match="its receipt says"):
        check_values({0: receipts((0, 0, 1))}, [[A]])

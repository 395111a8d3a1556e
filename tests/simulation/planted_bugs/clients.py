"""Wrong decisions of the SDK: positions, retries, numbers, and what it believes of an outcome."""

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.client.cluster_view import UNKNOWN_EPOCH
from penstock.client.consuming.fetch_position import FetchPosition
from penstock.client.producing.partition_queue import PartitionQueue
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import END
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import answers, asked_about, nothing
from tests.unit.client.consuming import test_consuming
from tests.unit.client.producing import test_producing

_QUEUE = "penstock.client.producing.partition_queue:PartitionQueue"


def _of_no_epoch(right: Any) -> Callable[..., None]:
    def add_fetched(position: FetchPosition, part: memoryview) -> None:
        right(position, part)
        position.fetch_epoch = UNKNOWN_EPOCH
        for fetched in position.buffer:
            fetched.epoch = UNKNOWN_EPOCH

    return add_fetched


def _numbered_anew(right: Any) -> Callable[..., None]:
    def resend_or_unnumber(queue: PartitionQueue, batch: Any) -> None:
        batch.tainted = False
        queue._unnumber(batch)

    return resend_or_unnumber


BUGS = (
    PlantedBug(
        name="a position without an epoch",
        rule="RL56",
        target="penstock.client.consuming.fetch_position:FetchPosition.add_fetched",
        wrong=_of_no_epoch,
        finders=(Check(test=test_consuming.test_positions_carry_the_epoch_of_the_record_before_them),),
    ),
    PlantedBug(
        name="a consumer begins at the end",
        rule="RL57",
        target="penstock.client.consuming.consumer:ConsumerCore._initial_target",
        wrong=answers(END),
        finders=(Check(test=test_consuming.test_all_partitions_are_read_from_the_beginning_in_order),),
    ),
    PlantedBug(
        name="new partitions are read from their end",
        rule="RL57",
        target="penstock.client.consuming.consumer:ConsumerCore._grow",
        wrong=lambda right: lambda core, view, target: right(core, view, END),
        finders=(
            Check(test=test_consuming.test_new_partitions_are_read_from_their_beginning_even_with_latest),
        ),
    ),
    PlantedBug(
        name="a retry under new numbers",
        rule="RL58",
        target=f"{_QUEUE}._resend_or_unnumber",
        wrong=_numbered_anew,
        finders=(
            Check(
                test=test_producing.test_a_lost_answer_is_retried_under_the_same_numbers_and_found_to_be_a_duplicate
            ),
        ),
    ),
    PlantedBug(
        name="goes on in the epoch of an unknown outcome",
        rule="RL59",
        target=f"{_QUEUE}._open_gap",
        wrong=asked_about(unknown=False),
        finders=(
            Check(
                test=test_producing.test_an_unanswered_batch_times_out_as_unknown_and_the_next_has_a_newer_epoch
            ),
        ),
    ),
    PlantedBug(
        name="every refusal is a broken connection",
        rule="RL60",
        target="penstock.client.refusals:refusal",
        wrong=lambda right: lambda code, message: errors.BrokerUnavailable(message),
        finders=(
            Check(
                test=partial(
                    test_producing.test_every_error_of_the_table_ends_as_its_class_says,
                    row=next(row for row in errors.error_table() if row.code is ErrorCode.FORBIDDEN),
                )
            ),
        ),
    ),
    PlantedBug(
        name="the last refusal stands for the first attempt",
        rule="RL17",
        target="penstock.client.refusals:unknown_because",
        wrong=lambda right: lambda label, error: error,
        finders=(
            Check(
                test=test_producing.test_a_fatal_refusal_of_a_batch_with_an_unanswered_attempt_is_not_called_certain
            ),
        ),
    ),
    PlantedBug(
        name="a truncation is skipped over",
        rule="RL56",
        target="penstock.client.consuming.fetch_position:FetchPosition.halt",
        wrong=nothing,
        finders=(
            Check(
                test=test_consuming.test_truncation_is_told_with_the_offset_where_the_logs_part_and_never_skipped
            ),
        ),
    ),
)

"""Wrong decisions about the metadata store."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.unit.broker import test_etcd_keys
from tests.unit.controller import test_batches
from tests.unit.metadata import test_lineage
from tests.unit.node.membership import test_trusted_store


def _never(right: Any) -> Callable[..., str]:
    return lambda *arguments, **named: ""


def _whatever_it_says(right: Any) -> Callable[..., None]:
    return lambda store, floor, revision: None


def _by_revision_alone(right: Any) -> Callable[..., str]:
    return lambda witness, lineage, *, revision, registration_known: right(
        witness, lineage, revision=revision, registration_known=0
    )


def _as_absent(right: Any) -> Callable[..., int]:
    return lambda origin, revision: max(right(origin, revision), 0)


def _without_the_seat(right: Any) -> Callable[..., Any]:
    return lambda batch, seat: right(batch, ())


BUGS = (
    PlantedBug(
        name="an older metadata store is believed",
        rule="RL55",
        target="data_plane.metadata.lineage:refusal",
        wrong=_never,
        finders=(
            Check(test=partial(test_lineage.test_a_store_that_went_back_is_refused, revision=99)),
            Check(
                test=test_trusted_store.test_what_was_seen_is_remembered_over_a_restart_and_an_older_store_refused
            ),
        ),
    ),
    PlantedBug(
        name="an older metadata store is believed once others have written to it",
        rule="RL55",
        target="data_plane.metadata.lineage:refusal",
        wrong=_by_revision_alone,
        finders=(
            Check(
                test=test_trusted_store.test_a_store_that_others_wrote_to_after_it_went_back_gives_itself_away
            ),
        ),
    ),
    PlantedBug(
        name="an older metadata store is believed once it has come as far again",
        rule="RL55",
        target="data_plane.metadata.lineage:rewritten",
        wrong=_never,
        finders=(
            Check(
                test=test_trusted_store.test_a_store_that_came_as_far_again_gives_itself_away_by_what_happened_on_the_way
            ),
        ),
    ),
    PlantedBug(
        name="answers of the metadata store may go back",
        rule="RL55",
        target="data_plane.node.membership.trusted_store:TrustedStore._check",
        wrong=_whatever_it_says,
        finders=(Check(test=test_trusted_store.test_an_answer_that_goes_back_is_the_last_that_is_asked_for),),
    ),
    PlantedBug(
        name="a revision of the store before compares as absent",
        rule="RL9",
        target="data_plane.broker.etcd_keys:Origin.mod_revision",
        wrong=_as_absent,
        finders=(
            Check(
                test=partial(
                    test_etcd_keys.test_a_revision_of_the_store_before_compares_as_no_key_ever_does,
                    never_given=99,
                )
            ),
        ),
    ),
    PlantedBug(
        name="elections written together leave the seat out",
        rule="RL9",
        target="data_plane.controller.batches:all_compares",
        wrong=_without_the_seat,
        finders=(Check(test=test_batches.test_no_batch_is_larger_than_a_transaction),),
    ),
)

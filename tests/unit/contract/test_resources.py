"""Descriptions of resources: what each must have, the words of the rules, and what is read from the command line."""

import inspect

import click
import pytest

from penstock.cli import described
from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import InvariantBroken
from penstock.contract.resources import ALL, BUDGETS, IN_TERRAFORM, LIMITS, budgets
from penstock.contract.resources.checks import check, chosen
from penstock.contract.resources.description import Field, Given, Kind, Method, Resource
from penstock.contract.resources.wording import meaning, meaning_in_answers, meaning_when_made
from penstock.rules import budgets as rules

WHOLE = Field(name="days", kind=Kind.WHOLE, help="Days.", zero="none", low=0, high=9, default=0)


@pytest.mark.parametrize("resource", ALL, ids=lambda resource: resource.name)
def test_what_callers_give_is_explained_in_a_sentence(resource: Resource) -> None:
    given = [field for field in resource.fields if field.given is not Given.NEVER]
    mute = [field.name for field in given if not field.help.endswith(".")]
    assert mute == []
    methods = [verb.method for verb in resource.verbs]
    assert len(set(methods)) == len(methods), "one operation a method"
    assert all(verb.about.endswith(".") and verb.operation for verb in resource.verbs)
    assert len({field.name for field in resource.fields}) == len(resource.fields)


def test_every_limit_has_a_label_and_says_what_0_is() -> None:
    assert all(limit.label and limit.zero and limit.low == 0 and limit.high for limit in LIMITS)


def test_the_words_of_budgets_are_those_of_their_rules() -> None:
    assert chosen(budgets.PERIOD) == rules.PERIODS
    assert set(chosen(budgets.MEASURE)) == {rules.BYTES, rules.MESSAGES, rules.COST}
    assert chosen(budgets.POLICY) == (*rules.POLICIES, rules.STOP_GROWTH)


def test_a_sentence_says_what_0_null_and_nothing_mean() -> None:
    assert meaning(WHOLE) == "Days; 0 = none."
    assert meaning_in_answers(Field(name="at", kind=Kind.MOMENT, null="never")) == "null: never."
    several = Field(name="percents", kind=Kind.WHOLES, help="Percents.", default=(50, 80, 100))
    assert meaning_when_made(several) == "Percents. 50, 80 and 100 unless given."
    assert meaning_when_made(WHOLE) == meaning(WHOLE), "that a new one has nothing is not said"


def test_a_value_outside_the_description_is_refused_by_its_name() -> None:
    check(WHOLE, 9)
    with pytest.raises(InvalidRequest, match="days: 10 is not within 0 to 9"):
        check(WHOLE, 10)
    with pytest.raises(InvalidRequest, match="period: one of month, day required"):
        check(budgets.PERIOD, "year")


def test_a_description_that_contradicts_itself_does_not_exist() -> None:
    with pytest.raises(InvariantBroken, match="days"):
        Field(name="days", kind=Kind.WHOLE, low=2, high=1)
    with pytest.raises(InvariantBroken, match="flag"):
        Field(name="flag", kind=Kind.FLAG, zero="no")


def test_a_description_has_no_behaviour() -> None:
    for kind in (Field, Resource):
        own = [name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"]
        assert own == []


def test_the_provider_has_what_it_can_make_change_and_read() -> None:
    for resource in IN_TERRAFORM:
        methods = {verb.method for verb in resource.verbs}
        assert {Method.CREATE, Method.READ, Method.CHANGE, Method.REMOVE} <= methods and resource.about


def test_0_is_sent_and_what_was_not_given_is_not() -> None:
    given = {"slow_bytes_per_s": 0, "name": None, "thresholds": (), "counts_reads": False, "events": ("a",)}
    assert described.body(given) == {"slow_bytes_per_s": 0, "events": ["a"]}
    with pytest.raises(click.UsageError, match=r"one of --name, --amount, .* and --threshold is required"):
        described.changes(BUDGETS, {"name": None, "thresholds": ()})

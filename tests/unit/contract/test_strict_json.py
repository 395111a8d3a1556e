"""JSON that two readers could take for two things is refused, and says why."""

import json

import pytest

from penstock.contract.strict_json import NameTwice, NotStrict, parse

NAME = json.dumps("x" * 9_000)


def test_what_is_read_is_what_json_says() -> None:
    assert parse('{"a": [1, 2.5, null, true, "\\u0041"], "b": {"a": {}}}') == {
        "a": [1, 2.5, None, True, "A"],
        "b": {"a": {}},
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 1}', "'a' stands there twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "'a' stands there twice"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ('{"a": ' + "9" * 5_000 + "}", "a whole number has too many digits"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str, says: str) -> None:
    with pytest.raises(NotStrict, match=f"^{says}$"):
        parse(text)


def test_a_long_name_is_shown_in_part() -> None:
    with pytest.raises(NameTwice) as refused:
        parse(f"{{{NAME}: 1, {NAME}: 2}}")
    assert len(str(refused.value)) < 100 and len(refused.value.name) == 9_000


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": 1}}', "9" * 5_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)

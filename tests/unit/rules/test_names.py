"""The names that both planes accept, at each bound and one beyond it."""

import pytest

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import TOPIC_NAME_LENGTH_MAX
from penstock.rules.names import (
    OPERATIONS,
    check_operations,
    check_printable_name,
    check_topic_name,
    check_topic_prefix,
)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * TOPIC_NAME_LENGTH_MAX, "_one"])
def test_a_topic_has_one_of_these_names(name: str) -> None:
    check_topic_name("tn_a", name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "x" * (TOPIC_NAME_LENGTH_MAX + 1), "__usage"]
)
def test_a_topic_has_none_of_these_names(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^name: "):
        check_topic_name("tn_a", name)


def test_names_of_the_service_are_for_its_own_tenant() -> None:
    check_topic_name(SYSTEM_TENANT, "__usage")


@pytest.mark.parametrize("prefix", ["", "a", ".", "__", "x" * TOPIC_NAME_LENGTH_MAX])
def test_a_key_can_be_limited_to_these_prefixes(prefix: str) -> None:
    check_topic_prefix(prefix)


@pytest.mark.parametrize("prefix", ["a b", "a*", "a\n", "x" * (TOPIC_NAME_LENGTH_MAX + 1)])
def test_a_key_cannot_be_limited_to_these_prefixes(prefix: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^topic_prefix: "):
        check_topic_prefix(prefix)


def test_an_operation_is_one_of_four() -> None:
    check_operations(OPERATIONS)
    with pytest.raises(InvalidRequest, match=r"^operations: 'write' is not one of describe, produce"):
        check_operations(["produce", "write"])


@pytest.mark.parametrize("name", ["a", "mine", "größe 7", "x" * 100])
def test_groups_members_and_keys_have_names_of_printable_characters(name: str) -> None:
    check_printable_name("group", name, 100)


@pytest.mark.parametrize("name", ["", "a\n", "a\0b", "\u202eeman", "x" * 101])
def test_a_name_that_is_empty_too_long_or_not_printable_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"group: .*: 1 to 100 printable characters required"):
        check_printable_name("group", name, 100)

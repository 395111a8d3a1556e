"""The text of API keys: frozen examples that must be made and read like this for ever."""

import pytest

from penstock.contract.api_keys import (
    ALPHABET,
    RANDOM_BYTES,
    ApiKey,
    MalformedApiKey,
    make_api_key,
    parse_api_key,
)

pytestmark = pytest.mark.both_cores

FROZEN = [
    (
        "dev",
        bytes(RANDOM_BYTES),
        "penstock_dev_000000000000_00000000000000000000000000000000000000000001BYxIx",
    ),
    (
        "dev",
        bytes(range(RANDOM_BYTES)),
        "penstock_dev_xkEgOGusQGwp_3oDH4mEVFvp7u7ED6UzpF5eHPrBI5AHumY7UBpOQIJz0KgE1B",
    ),
    (
        "prod2",
        bytes([255] * RANDOM_BYTES),
        "penstock_prod2_lk9n8mt7Fhc7_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp109ogAT",
    ),
]


@pytest.mark.parametrize(("env", "random_bytes", "text"), FROZEN)
def test_frozen_keys_are_made_and_read_as_ever(env: str, random_bytes: bytes, text: str) -> None:
    key = make_api_key(env, random_bytes)
    assert key.reveal() == text
    assert parse_api_key(text) == key


def test_the_parts_have_their_lengths() -> None:
    text = make_api_key("dev", bytes(range(RANDOM_BYTES))).reveal()
    brand, env, key_id, tail = text.split("_")
    assert (brand, env, len(key_id), len(tail)) == ("penstock", "dev", 12, 49)


def test_the_largest_secret_fits_its_digits() -> None:
    assert len(ALPHABET) ** 43 >= 2**256
    assert len(ALPHABET) ** 6 >= 2**32


def test_every_single_changed_character_is_noticed() -> None:
    text = make_api_key("dev", bytes(range(RANDOM_BYTES))).reveal()
    for at, was in enumerate(text):
        for other in "aZ5_":
            if other != was:
                with pytest.raises(MalformedApiKey):
                    parse_api_key(text[:at] + other + text[at + 1 :])


def test_every_cut_and_every_swap_of_neighbours_is_noticed() -> None:
    text = make_api_key("dev", bytes(range(RANDOM_BYTES))).reveal()
    for at in range(len(text)):
        with pytest.raises(MalformedApiKey):
            parse_api_key(text[:at])
    for at in range(len(text) - 1):
        swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        if swapped != text:
            with pytest.raises(MalformedApiKey):
                parse_api_key(swapped)


@pytest.mark.parametrize(
    "text", ["", "penstock", "sk_live_abc", "penstock_DEV_" + "a" * 12, "\n", "penstock_dev_" + "é" * 61]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(MalformedApiKey):
        parse_api_key(text)


def test_a_trailing_newline_is_not_part_of_a_key() -> None:
    with pytest.raises(MalformedApiKey):
        parse_api_key(make_api_key("dev", bytes(RANDOM_BYTES)).reveal() + "\n")


@pytest.mark.parametrize("env", ["", "Dev", "a_b", "x" * 13, "dev\n"])
def test_a_wrong_environment_is_refused(env: str) -> None:
    with pytest.raises(ValueError, match="env"):
        make_api_key(env, bytes(RANDOM_BYTES))


@pytest.mark.parametrize("count", [0, RANDOM_BYTES - 1, RANDOM_BYTES + 1])
def test_the_wrong_number_of_random_bytes_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="random bytes"):
        make_api_key("dev", bytes(count))


def test_no_text_form_shows_the_secret() -> None:
    key = make_api_key("dev", bytes(range(RANDOM_BYTES)))
    for shown in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert key.secret not in shown
        assert key.key_id in shown


def test_errors_never_repeat_the_text() -> None:
    text = make_api_key("dev", bytes(range(RANDOM_BYTES))).reveal()
    for wrong in (text[:-1] + ("0" if text[-1] != "0" else "1"), text + "x"):
        with pytest.raises(MalformedApiKey) as raised:
            parse_api_key(wrong)
        assert text[20:60] not in str(raised.value)


def test_keys_are_values() -> None:
    assert parse_api_key(make_api_key("dev", bytes(RANDOM_BYTES)).reveal()) == ApiKey(
        env="dev", key_id="0" * 12, secret="0" * 43
    )

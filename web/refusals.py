"""The text of a refusal for people: the field that it names, and a sentence."""

import re

_FIELD = re.compile(r"([A-Za-z][A-Za-z_-]*): (.+)", re.DOTALL)


def split_message(message: str) -> tuple[str, str]:
    """(field, text) of a refusal such as `partitions: 0 is not within 1 to 10000`; an empty field if it names none."""
    match = _FIELD.fullmatch(message)
    return (match[1], match[2]) if match else ("", message)


def as_sentence(text: str) -> str:
    """With a capital letter, unless it begins with a name, an address or a number: those are quoted as they are."""
    first = text.split(maxsplit=1)[:1]
    return text[:1].upper() + text[1:] if first and first[0].rstrip(",;:").isalpha() else text

"""What people typed: read with its errors by field, so that a form comes back as it was with what is wrong.

Fields and bounds are those of the actions; a refusal of theirs begins with the field that it is about.
"""

import re
from collections.abc import Mapping

from penstock.contract.errors import InvalidRequest, PenstockError
from penstock.rules.timestamps import read_moment, time_ms

TEXT_MAX = 512 * 1024
"""Characters of one field. What is longer is refused, never cut."""
_FIELD = re.compile(r"([A-Za-z][A-Za-z_-]*): (.+)", re.DOTALL)


def split_message(message: str) -> tuple[str, str]:
    """(field, text) of a refusal such as `partitions: 0 is not within 1 to 10000`; an empty field if it names none."""
    match = _FIELD.fullmatch(message)
    return (match[1], match[2]) if match else ("", message)


def as_sentence(text: str) -> str:
    """With a capital letter, unless it begins with a name, an address or a number: those are quoted as they are."""
    first = text.split(maxsplit=1)[:1]
    return text[:1].upper() + text[1:] if first and first[0].rstrip(",;:").isalpha() else text


class Form:
    """The values of a form as text, and its errors by field; the empty name is for the form as a whole."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)
        self.errors: dict[str, str] = {}

    @classmethod
    def of(cls, posted: Mapping[str, str], **defaults: str) -> "Form":
        """What was posted, else the defaults. Names that the form does not know are dropped."""
        form = cls({name: str(posted.get(name, value)) for name, value in defaults.items()})
        for name, text in form.values.items():
            if len(text) > TEXT_MAX:
                form.errors[name] = f"{len(text):,} characters; a form of the console takes {TEXT_MAX:,}"
                form.values[name] = ""
            elif "\0" in text:
                form.errors[name] = "There is a NUL in it, which no text has"
                form.values[name] = ""
        return form

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def text(self, name: str) -> str:
        return self.values[name].strip()

    def whole(self, name: str, what: str) -> int | None:
        """A whole number; notes the error otherwise."""
        text = self.text(name).replace(" ", "")
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            self.errors[name] = f"{what}: a whole number, please"
            return None
        return int(text)

    def refuse(self, error: PenstockError) -> None:
        """Note a refusal at the field that it names, or at the form."""
        field, text = split_message(error.message)
        text = as_sentence(text)
        if field in self.values:
            self.errors[field] = text
        else:
            self.errors[""] = text if not field else f"{field}: {text}"

    @property
    def failed(self) -> bool:
        return bool(self.errors)

    @property
    def whole_error(self) -> str:
        return self.errors.get("", "")


def moment_ms(text: str) -> int:
    """ms of a time as a browser's field gives it, in UTC."""
    try:
        at = read_moment(text.strip())
    except ValueError:
        raise InvalidRequest("time: a time such as 2026-01-31T12:00") from None
    return max(0, time_ms(at))

"""Forms of messages: which ones to show, and one to send."""

from collections.abc import Mapping
from typing import Any

from django import forms

from web.browsing import LIMITS, PARTITIONS_MAX
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Moment, Verbatim, Whole, numbered

HEADERS_MAX = 50
_AT = {
    "newest": "the newest, and follow",
    "beginning": "from the beginning",
    "offset": "from an offset",
    "time": "from a time",
    "key": "with a key",
}
_ALL = "all"
_EXAMPLE = '{"book": "one", "price": 12.50}'


class LookForm(ConsoleForm):
    """Which messages of a topic with `count` partitions to show."""

    at = Choice(
        label="Show",
        initial="newest",
        choices=[*_AT.items()],
        widget=forms.Select({"data-chooses": True}),
    )
    offset = Whole(
        label="Offset", required=False, widget=forms.TextInput({"inputmode": "numeric", "maxlength": 18})
    )
    time = Moment(label="Time, UTC", required=False)
    key = Verbatim(
        label="Key",
        required=False,
        widget=forms.TextInput({"maxlength": 1000, "spellcheck": "false", "autocapitalize": "off"}),
    )
    partition = forms.TypedChoiceField(label="Partition", initial=_ALL)
    limit = forms.TypedChoiceField(label="At most", initial=LIMITS[0], choices=numbered(LIMITS), coerce=int)

    def __init__(self, count: int, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        field = self.fields["partition"]
        assert isinstance(field, forms.TypedChoiceField)
        field.choices = [(_ALL, _ALL), *numbered(_listed(count, data))]
        field.coerce = lambda text: None if text == _ALL else int(text)
        field.error_messages["invalid_choice"] = f"The topic has partitions 0 to {count - 1}"

    def clean(self) -> dict[str, Any]:
        at = self.cleaned_data.get("at")
        for name in ("offset", "time", "key"):
            if name == at:
                self.require(name)
            else:
                self.pass_over(name)
        return self.cleaned_data


class SendForm(ConsoleForm):
    """One message to a topic with `count` partitions."""

    value = Verbatim(
        label="Value",
        help_text="Text; sent as UTF-8, exactly as typed.",
        initial=_EXAMPLE,
        required=False,
        widget=forms.Textarea({"rows": 8, "spellcheck": "false"}),
    )
    empty = forms.BooleanField(
        label="No value", help_text="(a tombstone)", required=False, template_name="web/fields/tick.html"
    )
    key = Verbatim(
        label="Key",
        help_text="Messages with the same key stay in order. Empty for none.",
        required=False,
        widget=forms.TextInput({"maxlength": 10_000, "spellcheck": "false", "autocapitalize": "off"}),
    )
    partition = forms.TypedChoiceField(
        label="Partition",
        help_text="Usually the key decides.",
        coerce=int,
        empty_value=None,
        required=False,
        error_messages={"invalid_choice": "Choose one of these"},
    )
    headers = Verbatim(
        label="Headers",
        help_text="One per line, as name: content",
        required=False,
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
    )

    def __init__(self, count: int, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        field = self.fields["partition"]
        assert isinstance(field, forms.TypedChoiceField)
        field.choices = [("", "by key"), *numbered(range(min(count, PARTITIONS_MAX)))]

    def clean_headers(self) -> list[tuple[str, bytes]]:
        """Lines of `name: content`."""
        headers = []
        # Not `splitlines`, and not `strip` of every blank: U+2028 and others are part of a header.
        for line in self.cleaned_data["headers"].split("\n"):
            if not line.strip(" \t"):
                continue
            name, colon, content = line.partition(":")
            if not colon or not name.strip(" \t"):
                raise forms.ValidationError(f"{line[:60]!r}: one header per line, as name: content")
            headers.append((name.strip(" \t"), content.strip(" \t").encode()))
        if len(headers) > HEADERS_MAX:
            raise forms.ValidationError(f"At most {HEADERS_MAX}")
        return headers


def _listed(count: int, data: Mapping[str, Any] | None) -> list[int]:
    """The partitions to choose from. Of too many, the first ones and the one that the address names."""
    listed = list(range(min(count, PARTITIONS_MAX)))
    named = str((data or {}).get("partition", ""))
    if named.isascii() and named.isdecimal() and len(named) < 7 and PARTITIONS_MAX <= int(named) < count:
        listed.append(int(named))
    return listed

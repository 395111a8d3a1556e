"""Forms that move a group's offsets: the target, and the moves of a preview."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Moment, Whole
from web.groups_now import GroupNow

_TO = {
    "beginning": "the beginning: read everything again",
    "end": "the end: skip unread messages",
    "time": "a time",
    "offset": "an offset",
}
_MOVE = re.compile(r"([^:]+):([0-9]{1,6}):([0-9]{1,18})")


class TargetForm(ConsoleForm):
    """Where a group goes on reading, in one of `topics` or in all."""

    to = Choice(
        label="Go to",
        initial="beginning",
        choices=[*_TO.items()],
        widget=forms.Select({"data-chooses": True}),
    )
    time = Moment(label="Time, UTC", required=False)
    offset = Whole(
        label="Offset", required=False, widget=forms.TextInput({"inputmode": "numeric", "maxlength": 18})
    )
    topic = forms.ChoiceField(
        label="In",
        required=False,
        error_messages={"invalid_choice": "The group has no committed offset in this topic"},
    )

    def __init__(self, topics: Sequence[str], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        field = self.fields["topic"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "all its topics"), *((topic, topic) for topic in topics)]

    def clean_offset(self) -> int | None:
        offset: int | None = self.cleaned_data["offset"]
        if offset is not None and offset < 0:
            raise forms.ValidationError("Offsets begin at 0")
        return offset

    def clean(self) -> dict[str, Any]:
        to = self.cleaned_data.get("to")
        for name in ("time", "offset"):
            if name == to:
                self.require(name)
            else:
                self.pass_over(name)
        return self.cleaned_data


class MovesForm(ConsoleForm):
    """The moves of a preview of the group `now`: (topic, partition) -> offset."""

    move = forms.Field(required=False, widget=forms.MultipleHiddenInput)

    def __init__(self, now: GroupNow, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self._known = {(part.topic, part.partition) for part in now.partitions}

        self.moves: dict[tuple[str, int], int] = {}

    def clean(self) -> dict[str, Any]:
        """Errors are shown above the preview, because its fields are hidden."""
        for text in self.cleaned_data["move"] or ():
            match = _MOVE.fullmatch(text)
            if match is None or (match[1], int(match[2])) not in self._known:
                raise forms.ValidationError("The group has changed since this preview; make another one")
            self.moves[match[1], int(match[2])] = int(match[3])
        if not self.moves:
            raise forms.ValidationError("There is nothing to move")
        return self.cleaned_data

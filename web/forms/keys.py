"""The form of a new key."""

from typing import Any

from django import forms

from penstock.contract.limits import KEY_NAME_LENGTH_MAX, TOPIC_NAME_LENGTH_MAX
from penstock.rules.names import OPERATIONS
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Several, Text

SOME = "some"
LIFETIMES = {"30": 30, "90": 90, "365": 365, "never": None}
"""Days; None: the key does not end by itself."""


class KeyForm(ConsoleForm):
    """A name, how long the key lives, and what it may do."""

    name = Text(
        label="Name",
        help_text="Say which program uses it and where, for instance: billing worker, production.",
        widget=forms.TextInput({"maxlength": KEY_NAME_LENGTH_MAX, "autofocus": True}),
    )
    lifetime = Choice(
        label="Ends by itself after",
        initial="90",
        choices=[("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("never", "never")],
    )
    scope = Choice(
        label="May do",
        initial="all",
        choices=[("all", "everything, on all topics"), (SOME, "some things, on some topics")],
        widget=forms.Select({"data-chooses": True}),
    )
    topic_prefix = Text(
        label="Topics that begin with",
        help_text="Empty means all topics. Groups are bound by the same beginning.",
        required=False,
        widget=forms.TextInput(
            {"maxlength": TOPIC_NAME_LENGTH_MAX, "spellcheck": "false", "autocapitalize": "off"}
        ),
    )
    operations = Several(
        label="Operations",
        choices=[(name, name) for name in OPERATIONS],
        initial=[name for name in OPERATIONS if name != "delete"],  # which cannot be undone
        required=False,
        before="may_",
    )

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("scope") == SOME:
            self.demand("operations")
        else:
            self.pass_over("topic_prefix", "operations")
        return self.cleaned_data

    @property
    def days(self) -> int | None:
        return LIFETIMES[self.cleaned_data["lifetime"]]

    @property
    def operations_bound(self) -> list[str]:
        """The operations that the key is bound to; none = it is bound to none."""
        chosen: list[str] = self.cleaned_data["operations"] or []
        return chosen if len(chosen) < len(OPERATIONS) else []

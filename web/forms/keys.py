"""The form of a new key."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from penstock.contract.limits import KEY_NAME_LENGTH_MAX, TOPIC_NAME_LENGTH_MAX
from penstock.rules.names import OPERATIONS
from web.forms.console_form import ConsoleForm, choose
from web.forms.fields import Choice, Several, Text

SOME = "some"
LIFETIMES = {"30": 30, "90": 90, "365": 365, "never": None}
"""Days; None: the key never expires."""


class _LivingKeyForm(ConsoleForm):
    """How long the key lives."""

    lifetime = Choice(
        label="Expires after",
        initial="90",
        choices=[("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("never", "never")],
    )

    @property
    def days(self) -> int | None:
        return LIFETIMES[self.cleaned_data["lifetime"]]


class VerifyingKeyForm(_LivingKeyForm):
    """A name, a lifetime, and the topics whose invoices' rows the key proves."""

    name = Text(
        label="Name",
        help_text="Say who checks invoices with it, for instance: auditor of 2026.",
        widget=forms.TextInput({"maxlength": KEY_NAME_LENGTH_MAX, "autofocus": True}),
    )
    topic_prefix = Text(
        label="Topics that begin with",
        help_text="Empty means all topics: an invoice is proven as a whole only then.",
        required=False,
        widget=forms.TextInput(
            {"maxlength": TOPIC_NAME_LENGTH_MAX, "spellcheck": "false", "autocapitalize": "off"}
        ),
    )
    field_order = ("name", "lifetime", "topic_prefix")


class KeyForm(_LivingKeyForm):
    """A name, a lifetime, and what the key may do."""

    name = Text(
        label="Name",
        help_text="Say which program uses it and where, for instance: billing worker, production.",
        widget=forms.TextInput({"maxlength": KEY_NAME_LENGTH_MAX, "autofocus": True}),
    )
    account = Choice(
        label="Acts for",
        required=False,
        help_text="Keys of a service account stay when you leave.",
    )
    scope = Choice(
        label="May do",
        initial="all",
        choices=[("all", "everything, on all topics"), (SOME, "some things, on some topics")],
        widget=forms.Select({"data-chooses": True}),
    )
    topic_prefix = Text(
        label="Topics that begin with",
        help_text="Empty means all topics. The same applies to the names of groups.",
        required=False,
        widget=forms.TextInput(
            {"maxlength": TOPIC_NAME_LENGTH_MAX, "spellcheck": "false", "autocapitalize": "off"}
        ),
    )
    operations = Several(
        label="Operations",
        choices=[(name, name) for name in OPERATIONS],
        initial=[name for name in OPERATIONS if name != "delete"],  # a deletion cannot be undone
        required=False,
        before="may_",
    )

    def __init__(
        self,
        accounts: Sequence[tuple[str, str]] = (),
        data: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """`accounts`: (id, name) of the service accounts that it may be a key of."""
        super().__init__(data, **options)
        if accounts:
            choose(self, "account", [("", "you"), *accounts])
        else:
            del self.fields["account"]

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("scope") == SOME:
            self.require("operations")
        else:
            self.pass_over("topic_prefix", "operations")
        return self.cleaned_data

    @property
    def operations_bound(self) -> list[str]:
        """The operations that the key is limited to; empty = all."""
        chosen: list[str] = self.cleaned_data["operations"] or []
        return chosen if len(chosen) < len(OPERATIONS) else []

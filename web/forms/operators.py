"""Forms of the operators' pages."""

from decimal import Decimal
from typing import Any, ClassVar

from django import forms

from billing.models import REASON_LENGTH_MAX, REFERENCE_LENGTH_MAX
from payments.models import TEXT_LENGTH_MAX
from penstock.contract import strict_json
from penstock.contract.resources import LIMITS
from penstock.rules import focus_costs
from web.forms.console_form import ConsoleForm
from web.forms.described import with_fields
from web.forms.fields import Choice, Secret, Text, Whole
from web.forms.terms import TERMS_LENGTH_MAX

_YES, _NO = "yes", "no"
_CHECK, _PUBLISH = "check", "publish"
FILE_BYTES_MAX = 2_000_000
"""A request with more is refused before a form sees it."""


class OperatorSignInForm(ConsoleForm):
    """An operator's token."""

    token = Secret(label="Operator's token", attrs={"autocomplete": "off", "maxlength": 200})


class VoidForm(ConsoleForm):
    """Take an invoice back."""

    reason = Text(
        label="Why",
        help_text="It stays in the audit log, and the tenant can read it there",
        widget=forms.TextInput({"maxlength": TEXT_LENGTH_MAX}),
    )


class CreditForm(ConsoleForm):
    """Credit a part of an invoice, or all that is left of it."""

    part = Choice(label="What of", required=False, help_text="The tax of a part is credited with it")
    amount = forms.DecimalField(
        label="Amount",
        required=False,
        min_value=Decimal("0.000001"),
        max_value=Decimal(10**12),
        decimal_places=6,
        help_text="Of the whole with tax, of a part before tax. Empty: all that is left of it",
    )
    reason = Text(
        label="Why",
        help_text="The credit note says it to the tenant",
        widget=forms.TextInput({"maxlength": REASON_LENGTH_MAX}),
    )
    reference = Text(
        label="Reference",
        help_text="What you call it, a ticket for instance. The same one again credits nothing more",
        widget=forms.TextInput({"maxlength": REFERENCE_LENGTH_MAX}),
    )

    def __init__(self, data: Any, parts: list[tuple[str, str]]) -> None:
        super().__init__(data)
        self.fields["part"].choices = [("", "The whole invoice"), *parts]  # type: ignore[attr-defined]


class TenantsMaxForm(ConsoleForm):
    """How many tenants a person may own."""

    tenants_max = Whole(
        label="Tenants that this person may own",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 6}),
    )


class _LimitsForm(ConsoleForm):
    """The limits of a tenant. One that is not sent stays as it is."""

    def clean(self) -> dict[str, Any]:
        """A limit that was emptied is not meant."""
        for name in self.fields:
            if name in self.data:
                self.require(name)
        return self.cleaned_data


LimitsForm = with_fields(_LimitsForm, LIMITS, required=False)


class SuspendForm(ConsoleForm):
    """Whether a tenant is to be suspended."""

    suspended = Choice(choices=[(_YES, _YES), (_NO, _NO)], widget=forms.HiddenInput)

    @property
    def wanted(self) -> bool:
        return bool(self.cleaned_data["suspended"] == _YES)


class CostImportForm(ConsoleForm):
    """A FOCUS export of what the infrastructure costs."""

    lands: ClassVar = {"csv": "file", "costs": "file"}
    source = Text(
        label="Source",
        help_text="Whose export it is; what it had in the same months is replaced",
        widget=forms.TextInput({"maxlength": 100, "spellcheck": "false"}),
    )
    file = forms.FileField(
        label="FOCUS export",
        help_text="CSV, at most 2 MB; penstock infrastructure import takes larger ones",
        max_length=255,
    )
    cost_column = Choice(
        label="A row costs its",
        choices=[(one, one) for one in focus_costs.COST_COLUMNS],
        initial=focus_costs.EFFECTIVE,
    )

    def clean_file(self) -> str:
        """The text of the file. Raises `ValidationError`."""
        upload = self.cleaned_data["file"]
        if upload.size > FILE_BYTES_MAX:
            raise forms.ValidationError(f"It has {upload.size:,} bytes; at most {FILE_BYTES_MAX:,} allowed.")
        try:
            return str(upload.read().decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise forms.ValidationError("It is no text in UTF-8.") from None


class PriceBookForm(ConsoleForm):
    """A price book to check or to publish."""

    lands: ClassVar = {"price book": "document"}
    document = forms.CharField(
        label="Document",
        help_text="JSON, as penstock price-book show --json prints one",
        max_length=TERMS_LENGTH_MAX,
        widget=forms.Textarea({"rows": 18, "spellcheck": "false", "class": "mono"}),
    )
    effective_from = forms.DateTimeField(
        label="Holds from", help_text="UTC, as 2026-12-01 00:00; for periods that begin then or later"
    )
    intent = forms.ChoiceField(
        choices=[(_CHECK, _CHECK), (_PUBLISH, _PUBLISH)], required=False, widget=forms.HiddenInput()
    )

    def clean_document(self) -> Any:
        """The parsed document."""
        try:
            return strict_json.parse(self.cleaned_data["document"])
        except ValueError as error:
            raise forms.ValidationError(f"This is no JSON: {error}") from error

    @property
    def is_check(self) -> bool:
        return bool(self.cleaned_data["intent"] != _PUBLISH)

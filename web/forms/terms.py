"""The form of a tenant's terms, for operators."""

from collections.abc import Sequence
from typing import Any

from django import forms

from penstock.contract import strict_json
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice

TERMS_LENGTH_MAX = 200_000
GENERAL = "general"
SET, PREVIEW = "set", "preview"


class TermsForm(ConsoleForm):
    """Discounts, prepaid credit and tax as JSON, and the price book."""

    price_book = Choice(label="Price book", choices=())
    terms = forms.CharField(
        label="Discounts, credit and tax",
        help_text="JSON with discounts, credits and tax. Times are milliseconds since 1970, UTC",
        max_length=TERMS_LENGTH_MAX,
        widget=forms.Textarea({"rows": 16, "spellcheck": "false", "class": "mono"}),
    )
    revision = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput())
    """Of the terms that the page showed."""
    intent = forms.ChoiceField(
        choices=[(PREVIEW, PREVIEW), (SET, SET)], required=False, widget=forms.HiddenInput()
    )

    def __init__(self, data: Any = None, *, books: Sequence[tuple[str, str]], **options: Any) -> None:
        super().__init__(data, **options)
        self.fields["price_book"].choices = [(GENERAL, "The one that is in effect for all"), *books]  # type: ignore[attr-defined]

    def clean_terms(self) -> Any:
        """The parsed document."""
        try:
            return strict_json.parse(self.cleaned_data["terms"])
        except ValueError as error:
            raise forms.ValidationError(f"This is no JSON: {error}") from error

    @property
    def book(self) -> str | None:
        """The hash of the tenant's own book."""
        chosen = self.cleaned_data["price_book"]
        return None if chosen == GENERAL else str(chosen)

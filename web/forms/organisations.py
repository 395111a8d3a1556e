"""Forms about organisations."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from penstock.contract.limits import DISPLAY_NAME_LENGTH_MAX
from tenants.models import TENANT_NAME_LENGTH_MAX
from web.forms.console_form import ConsoleForm, choose
from web.forms.fields import Choice, Text


class OrganisationForm(ConsoleForm):
    """Its names."""

    name = Text(
        label="Name",
        help_text="Letters, digits and . _ - ; no other organisation is called so.",
        widget=forms.TextInput(
            {"maxlength": TENANT_NAME_LENGTH_MAX, "spellcheck": "false", "autofocus": True}
        ),
    )
    display_name = Text(
        label="Display name",
        help_text="What people call it, in letters of one alphabet. The name if you leave it empty.",
        required=False,
        widget=forms.TextInput({"maxlength": DISPLAY_NAME_LENGTH_MAX}),
    )


class DeleteOrganisationForm(ConsoleForm):
    """The name of the organisation, typed again."""

    name = Text(
        label="Type the organisation's name to delete it",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, organisation: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self._organisation = organisation
        self.fields["name"].help_text = organisation

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name != self._organisation:
            raise forms.ValidationError(f"Type {self._organisation} exactly to delete it")
        return name


class MoveInForm(ConsoleForm):
    """One of the tenants that may be moved in: (id, name)."""

    tenant = Choice(label="Tenant")

    def __init__(self, tenants: Sequence[tuple[str, str]], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        choose(self, "tenant", tenants)

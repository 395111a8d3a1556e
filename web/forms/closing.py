"""Forms about the end of a tenant."""

from collections.abc import Mapping
from typing import Any

from django import forms

from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Text

_YES, _NO = "yes", "no"


class CloseTenantForm(ConsoleForm):
    """The name of the tenant, typed again."""

    name = Text(
        label="Type the tenant's name to close it",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, tenant: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self._tenant = tenant
        self.fields["name"].help_text = tenant

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name != self._tenant:
            raise forms.ValidationError(f"Type {self._tenant} exactly to close it")
        return name


class ProtectForm(ConsoleForm):
    """Whether a tenant is to be protected against being closed."""

    protected = Choice(choices=[(_YES, _YES), (_NO, _NO)], widget=forms.HiddenInput)

    @property
    def wanted(self) -> bool:
        return bool(self.cleaned_data["protected"] == _YES)

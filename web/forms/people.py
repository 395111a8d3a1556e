"""Forms about the people of a tenant."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.html import format_html

from tenants.roles import Role
from web.forms.console_form import ConsoleForm, choose
from web.forms.fields import Choice, Text


class InviteForm(ConsoleForm):
    """An address and a role, one of `roles`: (name, meaning)."""

    email = Text(
        label="E-mail address",
        help_text="Only a person with this address can accept the invitation.",
        widget=forms.EmailInput({"maxlength": 254, "autofocus": True, "autocomplete": "off"}),
    )
    role = Choice(
        label="Role",
        initial=Role.DEVELOPER.value,
        widget=forms.RadioSelect,
        template_name="web/fields/cards.html",
    )

    def __init__(self, roles: Sequence[tuple[str, str]], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        markup = '<strong>{}</strong><span class="quiet">{}</span>'
        choose(self, "role", [(name, format_html(markup, name, meaning)) for name, meaning in roles])


class RoleForm(ConsoleForm):
    """Another role for a person."""

    role = Choice(label="Role")
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, roles: Sequence[str], data: Mapping[str, Any] | None = None, *, of: str = "", **initial: Any
    ) -> None:
        # Each row of a list has one: without ids, each labelled with its person.
        super().__init__(data, initial=initial, auto_id=False)
        choose(self, "role", [(name, name) for name in roles])
        self.fields["role"].widget.attrs["aria-label"] = f"Role of {of}"

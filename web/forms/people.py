"""Forms about the people of a tenant."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.html import format_html

from tenants.people.requirement_actions import GRACE_DAYS, GRACE_DAYS_MAX
from tenants.roles import Role
from web.forms.console_form import ConsoleForm, choose
from web.forms.fields import Choice, Text, Whole


class InviteForm(ConsoleForm):
    """An address and a role, one of `roles`: (name, meaning)."""

    email = Text(
        label="E-mail address",
        help_text="Only a person with this address can accept the invitation.",
        widget=forms.EmailInput({"maxlength": 254, "autofocus": True, "autocomplete": "off"}),
    )
    role = Choice(
        label="Role",
        widget=forms.RadioSelect,
        template_name="web/fields/cards.html",
    )

    def __init__(
        self,
        roles: Sequence[tuple[str, str]],
        data: Mapping[str, Any] | None = None,
        *,
        chosen: str = Role.DEVELOPER.value,
    ) -> None:
        super().__init__(data, initial={"role": chosen})
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


class RequireFactorsForm(ConsoleForm):
    """How long people without a second factor have to add one."""

    lands: ClassVar = {"second_factor_grace_days": "grace_days"}
    grace_days = Whole(
        label="Days to add one",
        help_text=f"0 to {GRACE_DAYS_MAX}. Until then people without one are let in as before.",
        initial=GRACE_DAYS,
        min_value=0,
        max_value=GRACE_DAYS_MAX,
    )

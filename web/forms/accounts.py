"""Forms of people's own accounts: signing in and up, new tenants, and passwords."""

from typing import Any

from django import forms

from tenants import actions
from tenants.models import TENANT_NAME_LENGTH_MAX
from web.forms.console_form import ConsoleForm
from web.forms.fields import Secret, Text

_EMAIL = {"autocomplete": "username", "maxlength": 254}
_OLD = {"autocomplete": "current-password", "maxlength": 256}
_NEW = {"autocomplete": "new-password", "minlength": 10, "maxlength": 256}
_GOOD = "10 characters or more; a sentence is good."


class SignInForm(ConsoleForm):
    """An address and a password, and the page to go to."""

    email = Text(label="E-mail address", widget=forms.EmailInput(_EMAIL))
    password = Secret(label="Password", attrs=_OLD)
    next = Text(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """People do not type `next`, so an invalid one does not keep them from signing in."""
        if "next" in self.errors:
            self.pass_over("next")
        return self.cleaned_data


class SignUpForm(ConsoleForm):
    """A person and their first tenant."""

    email = Text(label="E-mail address", widget=forms.EmailInput(_EMAIL))
    password = Secret(label="Password", help_text=_GOOD, attrs=_NEW)
    tenant = Text(
        label="Name of your tenant",
        help_text="It contains your topics and keys; use for instance your team's name. Letters, digits and . _ -",
        widget=forms.TextInput(
            {"autocomplete": "organization", "maxlength": TENANT_NAME_LENGTH_MAX, "spellcheck": "false"}
        ),
    )

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that signing up would name."""
        email, password = self.cleaned_data.get("email", ""), self.cleaned_data.get("password", "")
        if email:
            self.ask(lambda: actions.checked_email(email))
        if password:
            self.ask(lambda: actions.checked_password(password, email.lower()))
        if "tenant" in self.cleaned_data:
            self.ask(lambda: actions.checked_tenant_name(self.cleaned_data["tenant"]))
        return self.cleaned_data


class TenantForm(ConsoleForm):
    """One more tenant."""

    tenant = Text(
        label="Name",
        help_text="Letters, digits and . _ - ; it cannot be changed later.",
        widget=forms.TextInput(
            {"maxlength": TENANT_NAME_LENGTH_MAX, "spellcheck": "false", "autofocus": True}
        ),
    )


class PasswordForm(ConsoleForm):
    """A new password for a person who knows the present one."""

    present = Secret(label="Your present password", attrs=_OLD)
    new = Secret(label="The new password", help_text=_GOOD, attrs=_NEW)


class ResetForm(ConsoleForm):
    """A new password for a person with a reset link."""

    new = Secret(label="The new password", help_text=_GOOD, attrs={**_NEW, "autofocus": True})


class JoinForm(ConsoleForm):
    """The password of a person who was invited and has not signed up."""

    password = Secret(label="Choose a password", help_text=_GOOD, attrs={**_NEW, "autofocus": True})

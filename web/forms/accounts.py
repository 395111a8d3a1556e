"""Forms of people's own accounts: signing in and up, new tenants, and passwords."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.utils import timezone

from billing.account_actions import currencies_offered
from tenants import actions
from tenants.factors.actions import NAME_LENGTH_MAX
from tenants.factors.passkeys import ANSWER_LENGTH_MAX
from tenants.models import TENANT_NAME_LENGTH_MAX, Person
from tenants.sign_in.confirming import asks_for_code
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Secret, Text

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


class _NewTenantForm(ConsoleForm):
    """What a new tenant is invoiced in; there is no such field where there is nothing to choose."""

    currency = Choice(
        label="Currency of your invoices",
        help_text="For good: it can never be changed.",
        required=False,
    )

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        offered = currencies_offered(timezone.now())
        field = self.fields["currency"]
        if len(offered) > 1 and isinstance(field, Choice):
            field.choices = [(one, one) for one in offered]
        else:
            del self.fields["currency"]

    @property
    def chosen(self) -> str:
        """Empty: the default one."""
        return str(self.cleaned_data.get("currency", ""))


class SignUpForm(_NewTenantForm):
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


class TenantForm(_NewTenantForm):
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


class AddressForm(ConsoleForm):
    """An address that gets an e-mail."""

    email = Text(label="E-mail address", widget=forms.EmailInput({**_EMAIL, "autofocus": True}))


class AskSignUpForm(ConsoleForm):
    """An address that gets a link to sign up by, and the name of the first tenant."""

    email = Text(label="E-mail address", help_text="You get a link there.", widget=forms.EmailInput(_EMAIL))
    tenant = SignUpForm.base_fields["tenant"]

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that the action would name."""
        for name, rule in (("email", actions.checked_email), ("tenant", actions.checked_tenant_name)):
            if name in self.cleaned_data:
                self.ask(partial(rule, self.cleaned_data[name]))
        return self.cleaned_data


class FinishSignUpForm(_NewTenantForm):
    """A password and the first tenant of a person whose address is proved."""

    password = Secret(label="Choose a password", help_text=_GOOD, attrs={**_NEW, "autofocus": True})
    tenant = SignUpForm.base_fields["tenant"]


class CodeForm(ConsoleForm):
    """A code of an app, or a recovery code."""

    code = Text(
        label="Code",
        help_text="Six digits from your app, or one of your recovery codes.",
        widget=forms.TextInput(
            {"autocomplete": "one-time-code", "inputmode": "numeric", "maxlength": 20, "autofocus": True}
        ),
    )
    next = Text(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """People do not type `next`, so an invalid one does not keep them from signing in."""
        if "next" in self.errors:
            self.pass_over("next")
        return self.cleaned_data


class OwnForm(ConsoleForm):
    """A change of the ways in: a person with a password gives it, and with a second factor a code, unless they have
    just signed in. `token` is that of their sign-in."""

    present = Secret(label="Your password", attrs=_OLD)
    present_code = Text(
        label="A code of your second factor",
        help_text="Of your app, or a recovery code: you signed in some time ago. With a passkey alone, sign out and in "
        "again instead.",
        widget=forms.TextInput({"autocomplete": "one-time-code", "inputmode": "numeric", "maxlength": 20}),
    )

    def __init__(
        self, person: Person, token: str, data: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(data, **options)
        if not person.has_usable_password():
            del self.fields["present"]
        if not asks_for_code(person, token):
            del self.fields["present_code"]

    @property
    def given(self) -> str:
        """The password that was typed; empty for a person without one."""
        return str(self.cleaned_data.get("present", ""))

    @property
    def given_code(self) -> str:
        """The code that was typed; empty if none was asked for."""
        return str(self.cleaned_data.get("present_code", ""))


class NewAddressForm(OwnForm):
    """The address that a person wants to have."""

    email = Text(
        label="The new address",
        help_text="It gets a link. Until you use the link, your address stays as it is.",
        widget=forms.EmailInput({"autocomplete": "email", "maxlength": 254, "autofocus": True}),
    )
    field_order = ("email", "present", "present_code")

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that the action would name."""
        if "email" in self.cleaned_data:
            self.ask(lambda: actions.checked_email(self.cleaned_data["email"]))
        return self.cleaned_data


class AppCodesForm(OwnForm):
    """The first code of a person's app."""

    code = Text(
        label="Code that the app shows",
        widget=forms.TextInput({"autocomplete": "one-time-code", "inputmode": "numeric", "maxlength": 10}),
    )
    field_order = ("code", "present", "present_code")


class PasskeyForm(OwnForm):
    """A name for a passkey, and what the browser got from it."""

    lands: ClassVar = {"passkey": "answer"}
    name = Text(
        label="Name",
        help_text="So that you know it again; for instance the device.",
        widget=forms.TextInput({"maxlength": NAME_LENGTH_MAX, "autocomplete": "off"}),
    )
    answer = Text(widget=forms.HiddenInput, required=False)
    field_order = ("name", "present", "present_code")

    def clean_answer(self) -> dict[str, Any]:
        return checked_answer(self.cleaned_data["answer"])


class PasskeyAnswerForm(ConsoleForm):
    """What the browser got from a passkey at sign-in, and the page to go to."""

    lands: ClassVar = {"passkey": "answer"}
    answer = Text(widget=forms.HiddenInput, required=False)
    next = Text(required=False, widget=forms.HiddenInput)

    def clean_answer(self) -> dict[str, Any]:
        return checked_answer(self.cleaned_data["answer"])


def checked_answer(text: str) -> dict[str, Any]:
    """A JSON object of a sensible size; what is in it, the check of the signature decides."""
    try:
        answer = json.loads(text) if len(text) <= ANSWER_LENGTH_MAX else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise forms.ValidationError("The browser got no answer from a passkey; try again")
    return answer

"""Forms of the operators' pages."""

from typing import Any

from django import forms

from quotas import actions as quotas
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Secret, Whole

_YES, _NO = "yes", "no"


class OperatorSignInForm(ConsoleForm):
    """An operator's token."""

    token = Secret(label="Operator's token", attrs={"autocomplete": "off", "maxlength": 200})


class TenantsMaxForm(ConsoleForm):
    """How many tenants a person may own."""

    tenants_max = Whole(
        label="Tenants that this person may own",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 6}),
    )


class LimitsForm(ConsoleForm):
    """The limits of a tenant."""

    produce_bytes_per_s = Whole(
        label="Produce rate",
        help_text="Bytes a second over all brokers; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
    )
    consume_bytes_per_s = Whole(
        label="Consume rate",
        help_text="Bytes a second over all brokers; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
    )
    partitions_max = Whole(
        label="Partitions",
        help_text="Of all topics together; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
    )

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that the action would name."""
        self.ask(lambda: quotas.check_produce_rate(self.cleaned_data.get("produce_bytes_per_s")))
        self.ask(lambda: quotas.check_consume_rate(self.cleaned_data.get("consume_bytes_per_s")))
        self.ask(lambda: quotas.check_partitions_max(self.cleaned_data.get("partitions_max")))
        return self.cleaned_data


class SuspendForm(ConsoleForm):
    """Whether a tenant is to be suspended."""

    suspended = Choice(choices=[(_YES, _YES), (_NO, _NO)], widget=forms.HiddenInput)

    @property
    def wanted(self) -> bool:
        return bool(self.cleaned_data["suspended"] == _YES)

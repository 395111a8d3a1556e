"""Forms of the operators' pages."""

from functools import partial
from typing import Any

from django import forms

from quotas import actions as quotas
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Secret, Whole

_YES, _NO = "yes", "no"
LATER_LIMITS = (
    "rest_calls_per_s",
    "connections_max",
    "groups_max",
    "requests_per_s",
    "connection_attempts_per_s",
    "rate_burst_ms",
    "rate_floor_percent",
    "storage_bytes_max",
    "partition_changes_per_hour",
)
"""Left empty they stay as they are."""


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

    rest_calls_per_s = Whole(
        label="REST calls a second",
        help_text="Of all callers together; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    connections_max = Whole(
        label="Connections",
        help_text="With open calls, at one broker; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    groups_max = Whole(
        label="Consumer groups",
        help_text="Over all brokers; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    requests_per_s = Whole(
        label="Requests a second",
        help_text="Of clients, over all brokers; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    connection_attempts_per_s = Whole(
        label="New connections",
        help_text="A second, at one broker; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    rate_burst_ms = Whole(
        label="Burst",
        help_text="Milliseconds that may be made up; 0: the usual 250",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    rate_floor_percent = Whole(
        label="Floor",
        help_text="Percent without a lease; 0: the usual 4",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    storage_bytes_max = Whole(
        label="Storage",
        help_text="Bytes that all topics keep, of one copy, with the recycle bin; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )
    partition_changes_per_hour = Whole(
        label="Changes an hour",
        help_text="Partitions made or deleted, and changed settings; 0: no limit",
        widget=forms.TextInput({"inputmode": "numeric", "maxlength": 19}),
        required=False,
    )

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that the action would name."""
        self.ask(lambda: quotas.check_produce_rate(self.cleaned_data.get("produce_bytes_per_s")))
        consume_rate = self.cleaned_data.get("consume_bytes_per_s")
        self.ask(lambda: quotas.check_limit("consume_bytes_per_s", consume_rate))
        self.ask(lambda: quotas.check_partitions_max(self.cleaned_data.get("partitions_max")))
        for name in LATER_LIMITS:
            self.ask(partial(quotas.check_limit, name, self.cleaned_data.get(name)))
        return self.cleaned_data


class SuspendForm(ConsoleForm):
    """Whether a tenant is to be suspended."""

    suspended = Choice(choices=[(_YES, _YES), (_NO, _NO)], widget=forms.HiddenInput)

    @property
    def wanted(self) -> bool:
        return bool(self.cleaned_data["suspended"] == _YES)

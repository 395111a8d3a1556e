"""Forms about webhooks: one of them, and the rotation of its secret."""

from typing import Any

from django import forms

from penstock.contract.resources import webhooks
from web.forms.console_form import ConsoleForm
from web.forms.described import box
from web.forms.fields import Choice, Text

_EXACT = {"spellcheck": "false", "autocapitalize": "off"}


class WebhookForm(ConsoleForm):
    """A name, an address, and patterns of event types, one a line."""

    name = box(webhooks.NAME)
    url = box(webhooks.URL)
    events = Text(
        label=webhooks.EVENTS.label,
        help_text="One a line: audit.* for every entry of the audit log, audit.topic.* for those about topics, or a "
        "whole type like audit.key.revoke.",
        widget=forms.Textarea({"rows": 4, **_EXACT}),
    )

    @property
    def given(self) -> dict[str, Any]:
        """As the actions take it."""
        found = self.cleaned_data
        return {"name": found["name"], "url": found["url"], "events": found["events"].split()}


class RotateForm(ConsoleForm):
    """How long the old secret signs beside the new one."""

    overlap = Choice(
        label="The old secret signs too",
        initial="24",
        choices=[
            ("1", "for 1 hour"),
            ("24", "for 1 day"),
            ("168", "for 7 days"),
            ("0", "no longer: it ends at once"),
        ],
    )

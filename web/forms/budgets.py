"""Forms about budgets: a new one, and what may be changed of one."""

from decimal import Decimal
from typing import Any

from django import forms

from penstock.contract.limits import KEY_NAME_LENGTH_MAX, TOPIC_NAME_LENGTH_MAX
from penstock.rules.budgets import BYTES, COST, MESSAGES, REFUSE, REFUSE_PRODUCE, SLOW, STOP_GROWTH
from quotas.models import Budget
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Text, Whole

_UNITS = {BYTES: 10**9, COST: 10**6, MESSAGES: 1}
"""Units of a budget in one of those that people type."""
_POLICIES = [
    ("notify", "Notify only"),
    (SLOW, "Slow producers down"),
    (REFUSE_PRODUCE, "Refuse new messages"),
    (REFUSE, "Refuse new messages and reads"),
    (STOP_GROWTH, "Ceiling: stop growth while the month is expected to cost more"),
]


class BudgetForm(ConsoleForm):
    """What may be changed of a budget."""

    name = Text(label="Name", widget=forms.TextInput({"maxlength": KEY_NAME_LENGTH_MAX, "autofocus": True}))
    amount = forms.DecimalField(
        label="Amount in a period",
        help_text="GB (10⁹ bytes), messages, or units of your price book's currency.",
        max_digits=18,
        decimal_places=6,
        min_value=Decimal("0.000001"),
    )
    policy = Choice(label="At the full amount", choices=_POLICIES, initial="notify")
    slow_bytes_per_s = Whole(
        label="Rate when slowed down", help_text="Bytes a second. For that policy only.", required=False
    )
    thresholds = Text(
        label="Write to owners at",
        help_text="Percents of the amount, with spaces between them.",
        initial="50 80 100",
        required=False,
        widget=forms.TextInput({"maxlength": 60, "inputmode": "numeric"}),
    )

    def clean_thresholds(self) -> list[int]:
        """Raises `ValidationError`."""
        words = self.cleaned_data["thresholds"].replace(",", " ").replace("%", " ").split()
        if any(not word.isascii() or not word.isdigit() or len(word) > 4 for word in words):
            raise forms.ValidationError("Whole percents required, as 50 80 100.")
        return [int(word) for word in words]

    def given(self, measure: str) -> dict[str, Any]:
        """As the actions take it, in units of that measure."""
        found = self.cleaned_data
        return {
            "name": found["name"],
            "amount": int(found["amount"] * _UNITS[measure]),
            "policy": found["policy"],
            "slow_bytes_per_s": (found["slow_bytes_per_s"] or 0) if found["policy"] == SLOW else 0,
            "thresholds": found["thresholds"],
        }

    @staticmethod
    def of(row: Budget) -> dict[str, Any]:
        """As the form shows it first."""
        amount = Decimal(row.amount) / _UNITS[row.measure]
        return {
            "name": row.name,
            "amount": f"{amount:f}",
            "policy": row.policy,
            "slow_bytes_per_s": row.slow_bytes_per_s or None,
            "thresholds": " ".join(map(str, row.thresholds)),
        }


class NewBudgetForm(BudgetForm):
    """Of what, too: that is never changed."""

    measure = Choice(
        label="Of what",
        choices=[(BYTES, "Bytes"), (MESSAGES, "Messages"), (COST, "Cost of what is produced")],
        initial=BYTES,
    )
    period = Choice(
        label="Period", choices=[("month", "A month (UTC)"), ("day", "A day (UTC)")], initial="month"
    )
    topic = Text(
        label="Topic",
        help_text="Empty: all topics.",
        required=False,
        widget=forms.TextInput({"maxlength": TOPIC_NAME_LENGTH_MAX, "spellcheck": "false"}),
    )
    counts = Choice(
        label="What counts",
        choices=[
            ("produced", "What is produced"),
            ("both", "What is produced, and each delivery to a consumer"),
        ],
        initial="produced",
    )

    @property
    def given_new(self) -> dict[str, Any]:
        """As `create` takes it."""
        found = self.cleaned_data
        return {
            **self.given(found["measure"]),
            "measure": found["measure"],
            "period": found["period"],
            "topic": found["topic"],
            "counts_reads": found["counts"] == "both",
        }

"""Forms about budgets: a new one, and what may be changed of one."""

from decimal import Decimal
from typing import Any

from django import forms

from penstock.contract.resources import budgets
from penstock.rules.budgets import BYTES, COST, MESSAGES, MONTH, NOTIFY, SLOW
from quotas.models import Budget
from web.forms.console_form import ConsoleForm
from web.forms.described import box
from web.forms.fields import Choice, Text

_UNITS = {BYTES: 10**9, COST: 10**6, MESSAGES: 1}
"""Units of a budget in one of those that people type."""


class BudgetForm(ConsoleForm):
    """What may be changed of a budget."""

    name = box(budgets.NAME)
    amount = forms.DecimalField(
        label=budgets.AMOUNT.label,
        help_text="GB (10⁹ bytes), messages, or units of your price book's currency.",
        max_digits=18,
        decimal_places=6,
        min_value=Decimal("0.000001"),
    )
    policy = box(budgets.POLICY, initial=NOTIFY)
    slow_bytes_per_s = box(budgets.SLOW_BYTES_PER_S, required=False)
    thresholds = Text(
        label=budgets.THRESHOLDS.label,
        help_text="Percents of the amount, with spaces between them.",
        initial=" ".join(map(str, budgets.THRESHOLDS_DEFAULT)),
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

    measure = box(budgets.MEASURE, initial=BYTES)
    period = box(budgets.PERIOD, initial=MONTH)
    topic = box(budgets.TOPIC, required=False)
    service_account = box(budgets.SERVICE_ACCOUNT, required=False)
    counts = Choice(
        label=budgets.COUNTS_READS.label,
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
            "service_account": found["service_account"],
            "counts_reads": found["counts"] == "both",
        }

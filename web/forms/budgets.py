"""Forms about budgets: a new one, and what may be changed of one."""

from dataclasses import replace
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
        max_digits=18,
        decimal_places=6,
        min_value=Decimal("0.000001"),
    )
    policy = box(replace(budgets.POLICY, help=""), initial=NOTIFY, chooses=True)
    slow_bytes_per_s = box(
        replace(
            budgets.SLOW_BYTES_PER_S, help="Bytes per second that producers may still send, over all brokers."
        ),
        required=False,
    )
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
    """Also what is counted, of whom and in which period: that is never changed."""

    measure = box(replace(budgets.MEASURE, help=""), initial=BYTES, chooses=True)
    period = box(replace(budgets.PERIOD, help=""), initial=MONTH)
    topic = box(replace(budgets.TOPIC, help="Leave it empty for all topics."), required=False)
    service_account = box(
        replace(budgets.SERVICE_ACCOUNT, help="The id of a service account; leave it empty for all keys."),
        required=False,
    )
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
            # The page does not show this field for costs, which have one way to count.
            "counts_reads": found["counts"] == "both" and found["measure"] != COST,
        }

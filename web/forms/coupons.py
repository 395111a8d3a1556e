"""Forms of the operators' page of coupons: a new one, and one given to a tenant."""

from decimal import Decimal
from typing import Any

from django import forms

from penstock.contract.resources import coupons
from penstock.rules.currencies import MINOR_DIGITS
from web.forms.console_form import ConsoleForm
from web.forms.described import box
from web.forms.fields import Choice, Text

PERCENT, AMOUNT = "percent", "amount"


class CouponForm(ConsoleForm):
    """A new coupon: a percentage of each line, or an amount of each period."""

    lands = {"basis_points": "value", "amount_micro": "value"}  # noqa: RUF012

    code = box(coupons.CODE)
    kind = Choice(
        label="What it takes off",
        choices=[(PERCENT, "A percentage of each line"), (AMOUNT, "An amount of each period")],
    )
    value = forms.DecimalField(
        label="How much",
        help_text="Percent with up to 2 places, or an amount in the currency.",
        max_digits=15,
        decimal_places=6,
        min_value=Decimal("0.000001"),
    )
    currency = Choice(
        label=coupons.CURRENCY.label,
        choices=[(code, code) for code in sorted(MINOR_DIGITS)],
        initial="USD",
        required=False,
    )
    days = box(coupons.DAYS, initial=90)
    uses_max = box(coupons.USES_MAX)
    from_at = box(coupons.FROM_AT)
    until_at = box(coupons.UNTIL_AT)
    reason = box(coupons.REASON)

    def clean(self) -> dict[str, Any]:
        """A percentage has two places at most, and is at most the whole."""
        value = self.cleaned_data.get("value")
        if self.cleaned_data.get("kind") == PERCENT and value is not None:
            if value > 100 or value * 100 != int(value * 100):
                self.add_error("value", "At most 100 percent, with up to 2 places")
        elif self.cleaned_data.get("kind") == AMOUNT:
            self.require("currency")
        return self.cleaned_data

    @property
    def given(self) -> dict[str, Any]:
        """As the action takes it."""
        found = dict(self.cleaned_data)
        value, percent = found.pop("value"), found.pop("kind") == PERCENT
        return {
            **found,
            "basis_points": int(value * 100) if percent else 0,
            "amount_micro": 0 if percent else int(value * 10**6),
            "currency": "" if percent else found["currency"],
        }


class GiveCouponForm(ConsoleForm):
    """Redeem a coupon for a tenant."""

    tenant = Text(
        label="Tenant",
        help_text="Its name or id. It gets the discount from its next period on.",
        widget=forms.TextInput({"maxlength": 100, "spellcheck": "false"}),
    )

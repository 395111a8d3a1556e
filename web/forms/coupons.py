"""Forms of the operators' page of coupons: a new one, and one given to a tenant."""

from decimal import Decimal
from typing import Any

from django import forms

from billing.coupon_actions import DAYS_MAX, DAYS_MIN, USES_MAX
from billing.coupon_models import CODE_LENGTH_MAX
from penstock.rules.currencies import MINOR_DIGITS
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Moment, Text, Whole

PERCENT, AMOUNT = "percent", "amount"


class CouponForm(ConsoleForm):
    """A new coupon: a percentage of each line, or an amount of each period."""

    lands = {"basis_points": "value", "amount_micro": "value"}  # noqa: RUF012

    code = Text(
        label="Code",
        help_text="6 or more of A to Z, 0 to 9 and -. Hard to guess: a tenant that knows it redeems it.",
        widget=forms.TextInput({"maxlength": CODE_LENGTH_MAX, "spellcheck": "false", "autocomplete": "off"}),
    )
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
        label="Currency of an amount",
        choices=[(code, code) for code in sorted(MINOR_DIGITS)],
        initial="USD",
        required=False,
    )
    days = Whole(
        label="For how long",
        help_text=f"Days from its redemption, {DAYS_MIN} to {DAYS_MAX}: it lowers the periods that begin within them.",
        initial=90,
        min_value=DAYS_MIN,
        max_value=DAYS_MAX,
    )
    uses_max = Whole(
        label="For how many tenants", help_text="Each redeems it once.", min_value=1, max_value=USES_MAX
    )
    from_at = Moment(label="Redeemed from", help_text="UTC.")
    until_at = Moment(label="Redeemed before", help_text="UTC.")
    reason = Text(label="Reason", help_text="Stands on invoices.", widget=forms.TextInput({"maxlength": 200}))

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
        found = self.cleaned_data
        percent = found["kind"] == PERCENT
        return {
            "code": found["code"],
            "basis_points": int(found["value"] * 100) if percent else 0,
            "amount_micro": 0 if percent else int(found["value"] * 10**6),
            "currency": "" if percent else found["currency"],
            "days": found["days"],
            "uses_max": found["uses_max"],
            "reason": found["reason"],
            "from_at": found["from_at"],
            "until_at": found["until_at"],
        }


class GiveCouponForm(ConsoleForm):
    """Redeem a coupon for a tenant."""

    tenant = Text(
        label="Tenant",
        help_text="Its name or id. It gets the discount from its next period on.",
        widget=forms.TextInput({"maxlength": 100, "spellcheck": "false"}),
    )

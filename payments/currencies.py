"""What the smallest coin of a currency is, as Stripe counts. https://docs.stripe.com/currencies

Prices and invoices count in micro-units and may be finer than any coin. Of an invoice, whole coins are asked for; the
rest of less than one coin is not.
"""

_NO_DIGITS = frozenset(
    {
        *("BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA"),
        *("PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"),
    }
)
_THREE_DIGITS = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})
_HUNDREDTH_MICRO = 10_000
_WHOLE = frozenset({"ISK", "UGX"})
"""Counted in hundredths by Stripe, and always whole."""
_LEAST = {
    **dict.fromkeys(("AUD", "BRL", "CAD", "CHF", "EUR", "INR", "NZD", "SGD", "USD"), 500_000),
    "GBP": 300_000,
    "BGN": 1_000_000,
    **dict.fromkeys(("AED", "MYR", "PLN", "RON"), 2_000_000),
    "DKK": 2_500_000,
    **dict.fromkeys(("NOK", "SEK"), 3_000_000),
    "HKD": 4_000_000,
    **dict.fromkeys(("MXN", "THB"), 10_000_000),
    "CZK": 15_000_000,
    "JPY": 50_000_000,
    "HUF": 175_000_000,
}
"""What Stripe charges at least: https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts"""


def unit_micro(currency: str) -> int:
    """Stripe's minor unit of the currency in micro-units."""
    if currency in _NO_DIGITS:
        return 1_000_000
    return 1_000 if currency in _THREE_DIGITS else _HUNDREDTH_MICRO


def whole_coins(amount_micro: int, currency: str) -> int:
    """The amount in micro-units without what is less than a coin. Coins of thousandths do not exist: Stripe takes those
    currencies in hundredths too.
    """
    coin = 1_000_000 if currency in _WHOLE else max(unit_micro(currency), _HUNDREDTH_MICRO)
    return amount_micro // coin * coin


def least_charge_micro(currency: str) -> int:
    """Less is not charged by Stripe: its invoice would be paid at once, and the amount be asked for with the next one.
    0 where it is not known; then the draft's amount due shows it.
    """
    return _LEAST.get(currency, 0)

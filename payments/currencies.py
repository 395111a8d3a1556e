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

"""Currencies of ISO 4217 and how many digits their minor unit has: 2 of the dollar, 0 of the yen, 3 of the dinar.

A price book may round finer than a coin (`minor_digits` up to 6), never coarser. There is no exchange: what is invoiced
is in the currency of the tenant's billing account, from its first invoice to its last.
"""

from penstock.contract.errors import InvalidRequest

_NONE = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_TWO = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP "
    "CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR "
    "JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN "
    "NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP "
    "SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD YER ZAR ZMW ZWG"
)
_THREE = "BHD IQD JOD KWD LYD OMR TND"
MINOR_DIGITS = {
    **dict.fromkeys(_NONE.split(), 0),
    **dict.fromkeys(_TWO.split(), 2),
    **dict.fromkeys(_THREE.split(), 3),
}
"""By code: what people pay in. Funds, metals and units of account are left out, and so are those of four digits, which
are units of account."""


def minor_digits(currency: str) -> int:
    """Digits of the currency's minor unit. Raises `InvalidRequest` for a code that ISO 4217 does not have.

    >>> minor_digits("EUR"), minor_digits("JPY"), minor_digits("KWD")
    (2, 0, 3)
    """
    found = MINOR_DIGITS.get(currency)
    if found is None:
        raise InvalidRequest(f"currency: {currency[:8]!r} is none of ISO 4217 that is paid in")
    return found


def check_rounding(currency: str, digits: int) -> None:
    """Amounts of the currency are rounded to so many digits: at least those of its coins. Raises `InvalidRequest`."""
    least = minor_digits(currency)
    if digits < least:
        raise InvalidRequest(
            f"minor_digits: {digits}; {currency} has {least}, and no amount is rounded coarser"
        )

"""A tax that another service states: its calculation, as an invoice holds it whole."""

from typing import Annotated, Literal

import msgspec

from penstock.contract.document_fields import AddressPart, Name, Stated, Strict, Time, Whole


class BillingAddress(Strict, frozen=True):
    """Where a tenant is for taxes: the country as in ISO 3166-1, the rest as the post writes it, or empty."""

    country: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{2}\Z")]
    state: AddressPart
    postal_code: AddressPart
    city: AddressPart
    line1: AddressPart
    line2: AddressPart


class TaxId(Strict, frozen=True):
    """A tenant's number at a tax authority, and which kind it is to Stripe: `eu_vat`."""

    type: Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{2,20}\Z")]
    value: Annotated[str, msgspec.Meta(min_length=1, max_length=50)]


class StatedTaxPart(Strict, frozen=True):
    """What one jurisdiction takes of a line, in the words of who states it."""

    country: Stated
    state: Stated
    jurisdiction: Stated
    level: Stated
    tax: Stated
    """Its kind: `vat`, `sales_tax`. Empty: none is taken."""
    percent: Stated
    taxable_micro: Whole
    amount_micro: Whole
    reason: Stated
    """Why so much is taken: `standard_rated`, `reverse_charge`, `not_collecting`."""


class StatedTaxLine(Strict, frozen=True):
    """What is taxed of one line, in whole coins: the line less its discounts and the credit that pays it."""

    line: Name
    base_micro: Whole
    tax_micro: Whole
    parts: tuple[StatedTaxPart, ...]


class TaxStatement(Strict, frozen=True):
    """The calculation of Stripe Tax that an invoice's tax stands on. Nothing here shows that it is right."""

    by: Literal["stripe_tax"]
    calculation: Name
    """Stripe's id of it."""
    tax_at_ms: Time
    """Of which moment the rates are."""
    address: BillingAddress
    tax_ids: tuple[TaxId, ...]
    lines: Annotated[tuple[StatedTaxLine, ...], msgspec.Meta(min_length=1)]

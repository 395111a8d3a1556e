"""The tax of an invoice by jurisdiction, as Stripe Tax stated it: what its page and its PDF have in common."""

from dataclasses import dataclass

from penstock.contract.tax_documents import StatedTaxPart, TaxStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTax:
    """What one jurisdiction takes of all lines at one rate. Amounts are micro-units of the invoice's currency."""

    where: str
    tax: str
    """Kind and rate: `vat 19 %`."""
    reason: str
    taxable_micro: int
    amount_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStatement:
    calculation: str
    address: str
    """In one line."""
    tax_ids: tuple[str, ...]
    rows: tuple[ShownTax, ...]


def shown(statement: TaxStatement) -> ShownStatement:
    """By jurisdiction in order, lines with the same rate and reason summed up."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for line in statement.lines:
        for part in line.parts:
            key = (_where(part), _tax(part), part.reason.replace("_", " "))
            found = sums.setdefault(key, [0, 0])
            found[0] += part.taxable_micro
            found[1] += part.amount_micro
    address = statement.address
    city = " ".join(one for one in (address.postal_code, address.city) if one)
    lines = (address.line1, address.line2, city, address.state, address.country)
    return ShownStatement(
        calculation=statement.calculation,
        address=", ".join(one for one in lines if one),
        tax_ids=tuple(f"{one.value} ({one.type.replace('_', ' ')})" for one in statement.tax_ids),
        rows=tuple(
            ShownTax(where=where, tax=tax, reason=reason, taxable_micro=taxable, amount_micro=amount)
            for (where, tax, reason), (taxable, amount) in sorted(sums.items())
        ),
    )


def _where(part: StatedTaxPart) -> str:
    """The narrowest name first: `Berlin, Germany`, `New York, NY, US`."""
    names = dict.fromkeys(one for one in (part.jurisdiction, part.state, part.country) if one)
    return ", ".join(names) or "-"


def _tax(part: StatedTaxPart) -> str:
    if not part.tax:
        return "none"
    return f"{part.tax.replace('_', ' ')} {part.percent} %"

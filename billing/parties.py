"""Who invoices and who is invoiced, as a document of billing states it when it is issued."""

from billing import tax_actions
from control_plane import config
from penstock.contract import documents
from tenants.models import Tenant


def seller() -> documents.Party:
    """The issuer, as the settings say."""
    said = config.current().invoices
    return documents.Party(name=said.issuer, lines=tuple(said.issuer_lines), tax_id=said.issuer_tax_id)


def buyer(tenant: Tenant) -> documents.Party:
    """The tenant, as its billing profile says; without one by its name alone."""
    row = tax_actions.address_of(tenant)
    if row is None:
        return documents.Party(name=tenant.name, lines=(), tax_id="")
    city = " ".join(part for part in (row.postal_code, row.city) if part)
    lines = (row.line1, row.line2, city, row.state, row.country)
    return documents.Party(
        name=row.legal_name or tenant.name, lines=tuple(line for line in lines if line), tax_id=row.tax_id
    )

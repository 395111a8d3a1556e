"""What the e-mail about an unpaid invoice says. Pure but for the public URL of the configuration."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from control_plane import config
from control_plane.mail.letter import Letter
from penstock.rules.rating import grouped_amount


def issued(
    tenant: str,
    *,
    number: str,
    invoice: str,
    open_micro: int,
    minor_digits: int,
    currency: str,
    due_at: datetime,
    bank_lines: Sequence[str],
    payment_reference: str,
) -> Letter:
    """With the invoice as PDF. `bank_lines`: where it is paid by bank."""
    amount = f"{grouped_amount(open_micro, minor_digits)} {currency}"
    paragraphs = [
        f"Invoice {number} of {tenant} is attached. {amount} are to be paid by {due_at:%Y-%m-%d}."
        if open_micro
        else f"Invoice {number} of {tenant} is attached. Nothing of it is to be paid."
    ]
    if open_micro and bank_lines:
        paragraphs.append(f"By bank pay to {', '.join(bank_lines)}, with the reference {payment_reference}.")
    return Letter(
        subject=f"Invoice {number} of {tenant}",
        paragraphs=tuple(paragraphs),
        link=f"{config.current().public_url.rstrip('/')}/t/{quote(tenant)}/invoices/{quote(invoice)}",
        link_says="See the invoice",
        after=("The tenant's billing profile says where invoices go, and whether they are sent at all.",),
    )


def credited(
    tenant: str,
    *,
    number: str,
    invoice_number: str,
    invoice: str,
    credited_micro: int,
    open_micro: int,
    minor_digits: int,
    currency: str,
    reason: str,
) -> Letter:
    """With the credit note as PDF. `reason`: why an operator granted it; empty: messages were lost."""

    def money(micro: int) -> str:
        return f"{grouped_amount(micro, minor_digits)} {currency}"

    why = reason or "messages were lost after they had been billed"
    return Letter(
        subject=f"Credit note {number} of {tenant}",
        paragraphs=(
            f"Credit note {number} is attached. {money(credited_micro)} of invoice {invoice_number} of {tenant} are "
            f"credited: {why}.",
            f"{money(open_micro)} of the invoice are still to be paid."
            if open_micro
            else "Nothing of the invoice is to be paid now. What was paid above it is given back.",
        ),
        link=f"{config.current().public_url.rstrip('/')}/t/{quote(tenant)}/invoices/{quote(invoice)}",
        link_says="See the invoice",
        after=("The tenant's billing profile says where these go, and whether they are sent at all.",),
    )


def reminder(
    tenant: str,
    *,
    is_purged: bool,
    number: int,
    carried: Sequence[int],
    invoice: str,
    open_micro: int,
    minor_digits: int,
    currency: str,
    due_at: datetime,
    suspended_at: datetime | None,
) -> Letter:
    """To owners, admins and billing. `suspended_at`: this is the last one, and then the tenant is suspended."""
    amount = f"{grouped_amount(open_micro, minor_digits)} {currency}"
    earlier = f", with no. {', '.join(map(str, carried))} that it carries" if carried else ""
    paragraphs = [
        f"Of invoice no. {number} of {tenant}{earlier}, {amount} was due on {due_at:%Y-%m-%d} and is not paid."
    ]
    if suspended_at is not None:
        paragraphs.append(
            f"This is the last reminder. If it is not paid by {suspended_at:%Y-%m-%d}, the keys of {tenant} are "
            "refused until it is paid and an operator resumes the tenant. No message is lost."
        )
    path = "account/closed-invoices" if is_purged else f"t/{quote(tenant)}/invoices/{quote(invoice)}"
    page = f"{config.current().public_url.rstrip('/')}/{path}"
    return Letter(
        subject=f"Invoice no. {number} of {tenant} is not paid",
        paragraphs=tuple(paragraphs),
        link=page,
        link_says="See the invoice and pay",
        after=("You get this e-mail because you may see the invoices of the tenant and pay them.",),
    )

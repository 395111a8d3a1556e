"""What a purged tenant does not need any more: who may do what, its accounts, limits, budgets and tags, its place.

Invoices are proven from usage, seals and cuts, and audit entries name keys and accounts by their ids. All of that stays
(docs/decisions/0094).
"""

from django.db import transaction

from billing import cost_tags
from control_plane.access import actions as access
from control_plane.access import list_actions
from control_plane.access_reports import actions as access_reports
from control_plane.audit.actor import Actor
from control_plane.placement import cell_actions
from quotas import budget_actions, partition_changes, storage_warnings
from quotas.account_actions import remove_account_limits
from tenants import queries as tenants
from tenants.models import Tenant


def forget(actor: Actor, tenant: Tenant) -> None:
    """All of it, or nothing. Again does nothing more."""
    with transaction.atomic():
        list_actions.clear(actor, tenant)
        access.forget_bindings(tenant)
        for account in list(tenants.service_accounts(tenant).order_by("pk")):
            list_actions.end_account(actor, tenant, account)
        remove_account_limits(actor, tenant, None)
        budget_actions.remove_all(actor, tenant)
        storage_warnings.forget(tenant)
        partition_changes.forget(tenant)
        cost_tags.forget(tenant)
        access_reports.forget_refusals(tenant)
        cell_actions.forget(tenant.public_id)

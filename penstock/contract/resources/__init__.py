"""Resources of the service, each described once: what is made from a description is written nowhere else."""

from penstock.contract.resources.budgets import BUDGETS
from penstock.contract.resources.cost_tags import COST_TAGS
from penstock.contract.resources.coupons import COUPONS
from penstock.contract.resources.quotas import LIMITS, QUOTAS
from penstock.contract.resources.webhooks import WEBHOOKS

ALL = (QUOTAS, BUDGETS, COUPONS, WEBHOOKS, COST_TAGS)
IN_TERRAFORM = (BUDGETS, WEBHOOKS)
"""Those that the provider makes from their descriptions, alone or in part."""

__all__ = ["ALL", "BUDGETS", "COST_TAGS", "COUPONS", "IN_TERRAFORM", "LIMITS", "QUOTAS", "WEBHOOKS"]

"""Budgets of a tenant that has none, for streams in tests."""

from typing import Any, cast

from data_plane.metadata.image import ClusterImage
from data_plane.node.leasing.key_budgets import KeyBudgets
from penstock.contract.ids import TenantId


def no_budgets() -> KeyBudgets:
    unused = cast(Any, None)
    return KeyBudgets(ClusterImage(), unused, unused, unused, TenantId("t"), "k")

"""How the command line names resources and scopes: `topic:orders.*`, `produce,describe:topic:orders.*`."""

from typing import Any

import click

from penstock.rules.access import RESOURCES, TENANT


def resource_of(text: str) -> dict[str, Any]:
    """`KIND:NAME` as REST takes it; a name that ends with * is a prefix, and `tenant` has none. Raises `UsageError`."""
    kind, divided, name = text.partition(":")
    if kind not in RESOURCES or (kind != TENANT and not divided):
        raise click.UsageError(
            f"{text[:64]!r}: a resource is topic:NAME, group:NAME, transactional_id:NAME or tenant; NAME* is a prefix"
        )
    if kind == TENANT:
        return {"resource": kind}
    is_prefix = name.endswith("*")
    return {
        "resource": kind,
        "name": name.removesuffix("*"),
        "pattern": "prefix" if is_prefix else "literal",
    }


def scope_of(text: str) -> dict[str, Any]:
    """`OPERATIONS:KIND:NAME` as REST takes it; `all` means every operation. Raises `UsageError`."""
    operations, divided, resource = text.partition(":")
    if not divided:
        raise click.UsageError(f"{text[:64]!r}: a scope is OPERATIONS:RESOURCE:NAME, as all:topic:orders.*")
    scope = resource_of(resource)
    return scope if operations == "all" else {**scope, "operations": operations.split(",")}

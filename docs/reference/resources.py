"""The descriptions of resources, as the Terraform provider reads them."""

import json
from typing import Any

from penstock.contract.resources import IN_TERRAFORM
from penstock.contract.resources.description import Field, Given, Resource
from penstock.contract.resources.wording import meaning_when_made


def written() -> str:
    """JSON, one line a value, as `terraform/provider/internal/provider/descriptions.go` reads it."""
    return (
        json.dumps([resource_document(resource) for resource in IN_TERRAFORM], indent=1, ensure_ascii=False)
        + "\n"
    )


def resource_document(resource: Resource) -> dict[str, Any]:
    """One of them."""
    return {
        "name": resource.name,
        "path": resource.path,
        "about": resource.about,
        "delivered": resource.delivered,
        "fields": [_field(field) for field in resource.fields if field.given in (Given.ONCE, Given.ALWAYS)],
    }


def _field(field: Field) -> dict[str, Any]:
    """Without what it has not."""
    described = {
        "name": field.name,
        "kind": field.kind.value,
        "meaning": meaning_when_made(field),
        "required": field.default is None,
        "default": field.default,
        "replaced": field.given is Given.ONCE,
        "low": field.low,
        "high": field.high,
        "items_max": field.items_max,
    }
    return {name: value for name, value in described.items() if value is not None}

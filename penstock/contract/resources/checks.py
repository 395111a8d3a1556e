"""Whether a value is one that a described field may have."""

from penstock.contract.errors import InvalidRequest
from penstock.contract.resources.description import Field


def check(field: Field, value: str | int) -> None:
    """Raises `InvalidRequest` unless the value is within the field's bounds and among its choices."""
    if isinstance(value, str):
        if field.choices and value not in chosen(field):
            raise InvalidRequest(f"{field.name}: one of {', '.join(chosen(field))} required")
    elif field.low is not None and field.high is not None and not field.low <= value <= field.high:
        raise InvalidRequest(f"{field.name}: {value} is not within {field.low} to {field.high}")


def chosen(field: Field) -> tuple[str, ...]:
    """The values that the field may have."""
    return tuple(choice.value for choice in field.choices)

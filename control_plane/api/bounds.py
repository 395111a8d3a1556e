"""Bounds of described fields, as REST and the console check them."""

from django.core.validators import BaseValidator, MaxValueValidator, MinValueValidator

from penstock.contract.resources.description import Field


def within_bounds(field: Field) -> list[BaseValidator]:
    """What refuses a number outside the field's bounds; none where it has none."""
    if field.low is None or field.high is None:
        return []
    said = f"%(show_value)s is not within {field.low} to {field.high}"
    return [MinValueValidator(field.low, said), MaxValueValidator(field.high, said)]

"""Long lists in pages, by a parameter of the address."""

from typing import TYPE_CHECKING, TypeVar

from django.core.paginator import Page, Paginator
from django.http import HttpRequest

if TYPE_CHECKING:
    from django.core.paginator import _SupportsPagination

T = TypeVar("T")


def page_of(
    request: HttpRequest, rows: "_SupportsPagination[T]", per_page: int, name: str = "page"
) -> Page[T]:
    """The page of `rows` that the address names by `name`; the nearest one where it names none that is there."""
    return Paginator(rows, per_page).get_page(request.GET.get(name, "1")[:9])

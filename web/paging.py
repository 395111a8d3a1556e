"""Long lists in pages and searched, by query parameters."""

from typing import TYPE_CHECKING, TypeVar

from django.core.paginator import Page, Paginator
from django.http import HttpRequest

if TYPE_CHECKING:
    from django.core.paginator import _SupportsPagination

T = TypeVar("T")


def page_of(
    request: HttpRequest, rows: "_SupportsPagination[T]", per_page: int, name: str = "page"
) -> Page[T]:
    """The page of `rows` that the parameter `name` gives, or the nearest existing one."""
    return Paginator(rows, per_page).get_page(request.GET.get(name, "1")[:9])


def searched(request: HttpRequest, name: str = "q", *, length_max: int = 100) -> str:
    """The text that a list is searched for. A NUL, which no database takes, is left out."""
    return request.GET.get(name, "").strip()[:length_max].replace("\0", "")

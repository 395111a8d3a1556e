"""Pages for browsers that run no scripts: what scripts would ask for later stands in the page."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe

_NOW = "now"


def first_answer(
    request: HttpRequest, part: Callable[..., HttpResponse], *args: str, **kwargs: str
) -> dict[str, Any]:
    """For the template of a page with a live part: what the part shows now, and the address that asks for it.

    `part` is the view of the same page's part, which guards itself. The page sends browsers without scripts to that
    address, by a refresh that others do not see.
    """
    query = request.GET.copy()
    query[_NOW] = "1"
    answer = ""
    if request.GET.get(_NOW) == "1":
        # Written by the part's own template, which escapes.
        answer = mark_safe(part(request, *args, **kwargs).content.decode())
    return {"first_answer": answer, "unscripted": f"?{query.urlencode()}"}


def render_part(
    request: HttpRequest, template: str, context: dict[str, Any], *, title: str, back: str
) -> HttpResponse:
    """A part of a page, for scripts. A person who follows a link to it gets a page of its own, with the way back."""
    if request.headers.get("HX-Request"):
        return render(request, template, context)
    return render(request, "web/part_page.html", {**context, "part": template, "title": title, "back": back})

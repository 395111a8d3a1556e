"""Pages for browsers without scripts: the page itself has the parts that scripts would load."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe

_NOW = "now"


def first_answer(
    request: HttpRequest, part: Callable[..., HttpResponse], *args: str, **kwargs: str
) -> dict[str, Any]:
    """For the template of a page with a live part: the present content of the part, and the address that asks for it.

    `part` is the view of the part, which checks permissions itself. The page sends browsers without scripts to that
    address, by a refresh that other browsers ignore.
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
    """A part of a page, for scripts. A person who follows a link to it gets a whole page with a link back."""
    if request.headers.get("HX-Request"):
        return render(request, template, context)
    return render(request, "web/part_page.html", {**context, "part": template, "title": title, "back": back})

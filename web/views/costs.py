"""Whose costs are whose: a chart, a table and files by day, topic, principal, group, meter or tag; and the tags."""

import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from billing import cost_answers, cost_reports, cost_tags
from billing.cost_reports import Asked, Report
from control_plane.rest.costs import against_of, asked_by, data_sets, shown_amounts, shown_row
from control_plane.topics import queries as topics
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError
from penstock.rules.cost_rows import as_csv
from tenants.models import Tenant
from tenants.roles import Permission
from web import charts, formats, notices
from web.forms.console_form import posted
from web.forms.costs import CostTagsForm
from web.paging import page_of, searched
from web.refusals import as_sentence
from web.templatetags.console import meter
from web.tenant_access import TenantAccess, in_tenant

HERE = "costs"
PER_PAGE = 50
MONTHS = 13
CHART_GROUPS_MAX = 200
"""Groups that a chart by day is made of; with more it has meters."""
CHART_DAYS_MAX = 92
_CSV, _JSON = "csv", "json"
_HIDDEN = ("partition", "principal", "group", "meter", "currency")
"""Filters that an address may have and the page has no field for: they stay."""
_FILTERS = ("topic", "partition", "principal", "group", "meter", "tag", "currency")
_LABELS = {
    "topic": "Topic",
    cost_reports.PARTITION: "Partition",
    "principal": "Principal",
    "group": "Consumer group",
    "meter": "Meter",
    "day": "Day",
    "month": "Month",
}
_CHOICES = _LABELS | {cost_reports.PARTITION: "Partition of a topic"}
_NOTHING = {
    "topic": "of no topic",
    cost_reports.PARTITION: "not known yet",
    "principal": "of no principal",
    "group": "of no group",
    "meter": "of no meter",
}


@in_tenant(Permission.USAGE_READ)
@require_safe
def costs(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """A chart by day, and a table by what is asked for, with another month beside it."""
    now = timezone.now()
    keys = cost_tags.tag_keys(access.tenant)
    context: dict[str, Any] = {
        "here": HERE,
        "choices": [*_CHOICES.items(), *((f"tag:{key}", f"Tag {key}") for key in keys)],
        "months": _months(now.date()),
        "given": {
            name: request.GET.get(name, "")[:255]
            for name in ("by", "from", "to", "month", "against", *_FILTERS)
        },
        "by": request.GET.get("by", "topic")[:80] or "topic",
        "hidden": [(name, request.GET[name][:255]) for name in _HIDDEN if request.GET.get(name)],
    }
    topic = topics.topics(access.tenant).filter(name=searched(request, "topic", length_max=255)).first()
    if topic is not None:
        context |= {"topic": topic, "tab": "costs", "here": "topics"}
    try:
        asked, against = _asked(request.GET, now.date())
        found = _found(access.tenant, asked, against, now)
        context |= _shown(request, access.tenant, found, now)
    except InvalidRequest as error:
        context["refused"] = error
    return render(request, "web/costs.html", context, status=422 if "refused" in context else 200)


@in_tenant(Permission.USAGE_READ)
@require_safe
def file(request: HttpRequest, access: TenantAccess, form: str) -> HttpResponse:
    """All rows of the table, as CSV or as the JSON of `GET /v1/costs`."""
    if form not in (_CSV, _JSON):
        raise Http404
    now = timezone.now()
    asked, against = _asked(request.GET, now.date())
    found = _found(access.tenant, asked, against, now)
    rows = [shown_row(row, found) for row in found.rows]
    if form == _CSV:
        text = "".join(as_csv(asked.by, found.currency, rows))
        response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    else:
        whole = {
            "from": asked.first.isoformat(),
            "to": asked.end.isoformat(),
            "currency": found.currency,
            "minor_digits": found.minor_digits,
            "currencies": list(found.currencies),
            "provisional": found.is_provisional,
            "total": shown_amounts(found.total),
            "items": rows,
        }
        response = HttpResponse(json.dumps(whole, ensure_ascii=False), content_type="application/json")
    last = asked.end - timedelta(days=1)
    response.headers["Content-Disposition"] = f'attachment; filename="costs-{asked.first}-{last}.{form}"'
    return response


@in_tenant(Permission.USAGE_READ)
@require_safe
def tags(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The tags of topics and principals."""
    page = page_of(request, cost_tags.tags(access.tenant).order_by("kind", "name", "key"), PER_PAGE)
    return render(request, "web/cost_tags.html", {"here": HERE, "page": page, "items": list(page)})


@in_tenant(Permission.BUDGETS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def set_tags(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Set all tags of a topic or a principal."""
    kind, name = request.GET.get("kind", cost_tags.TOPIC), searched(request, "name", length_max=255)
    present = cost_tags.tags_of(access.tenant, kind[:20].replace("\0", ""), name) if name else {}
    words = ", ".join(f"{key}={value}" for key, value in present.items())
    form = CostTagsForm(posted(request), initial={"kind": kind, "name": name, "tags": words})
    if form.is_valid():
        kind, name = form.cleaned_data["kind"], form.cleaned_data["name"]
        try:
            found = cost_tags.set_tags(access.actor, access.tenant, kind, name, form.cleaned_data["tags"])
        except NotFound as error:
            form.add_error("name", as_sentence(error.message))
        except PenstockError as error:
            form.refuse(error)
        else:
            said = ", ".join(f"{key}={value}" for key, value in found.items()) or "no tags"
            return notices.put(redirect(access.url("cost-tags")), f"{name} has {said}.")
    return render(request, "web/cost_tags_set.html", {"here": HERE, "form": form}, status=form.status)


def _asked(given: QueryDict, today: date) -> tuple[Asked, Asked | None]:
    """As REST reads it; an empty field is none. Raises `InvalidRequest`."""
    wanted = {name: given[name][:255] for name in given if given[name]}
    wanted["by"] = wanted.get("by", "topic")
    if "from" in wanted or "to" in wanted:
        wanted.pop("month", None)
    asked = asked_by(wanted, today)
    return asked, against_of(wanted, asked)


def _found(tenant: Tenant, asked: Asked, against: Asked | None, now: datetime) -> Report:
    return cost_answers.answered(tenant, asked, against, now, data_sets)


def _shown(request: HttpRequest, tenant: Tenant, found: Report, now: datetime) -> dict[str, Any]:
    asked = found.asked
    rows = list(found.rows)
    if not asked.bucket:
        rows.sort(key=lambda row: (-row.cost_micro, *cost_reports.order_of(row)))
    page = page_of(request, rows, PER_PAGE)
    highest = max((row.cost_micro for row in rows), default=0)
    drawn, stacked = _chart(tenant, found, now)
    query = request.GET.copy()
    query.pop("page", None)
    query["by"] = ",".join(asked.by)
    return {
        "report": found,
        "asked": asked,
        "last": asked.end - timedelta(days=1),
        "headings": [heading(name) for name in asked.by],
        "page": page,
        "items": [
            {
                "names": [_name(found, name, value) for name, value in row.values.items()],
                "row": row,
                "percent": 100 * max(0, row.cost_micro) // highest if highest > 0 else 0,
            }
            for row in page
        ],
        "query": query.urlencode(),
        "stacked_by": stacked,
        **drawn,
    }


def heading(name: str) -> str:
    """Of a dimension."""
    return (
        f"Tag {name.removeprefix(cost_reports.TAG)}" if name.startswith(cost_reports.TAG) else _LABELS[name]
    )


def _name(found: Report, name: str, value: str) -> str:
    if name.startswith(cost_reports.TAG):
        return value or "untagged"
    if name == "principal" and found.names.get(value):
        return f"{found.names[value]} ({value})"
    if name == cost_reports.PARTITION and value:
        return f"{found.asked.topic}-{value}"
    if name == "meter" and value:
        return str(meter(value))
    return value or _NOTHING.get(name, "")


def _chart(tenant: Tenant, found: Report, now: datetime) -> tuple[dict[str, Any], str]:
    """The days of the time asked for, stacked by the first dimension that is no time, or by meter."""
    asked = found.asked
    others = [name for name in asked.by if name not in ("day", "month")]
    by = others[0] if others and len(found.rows) <= CHART_GROUPS_MAX else "meter"
    days = [asked.first + timedelta(days=at) for at in range((asked.end - asked.first).days)]
    bucket, labels = "day", [f"{day.day} {day:%b}" for day in days]
    keys = [day.isoformat() for day in days]
    if len(days) > CHART_DAYS_MAX:
        bucket = "month"
        keys = sorted({f"{day:%Y-%m}" for day in days})
        labels = keys
    divided = _found(tenant, replace(asked, by=(bucket, by), currency=found.currency), None, now)
    numbers: dict[str, dict[str, int]] = {}
    open_from: str | None = None
    for row in divided.rows:
        at = row.values[bucket]
        sums = numbers.setdefault(_name(divided, by, row.values[by]), {})
        sums[at] = sums.get(at, 0) + row.cost_micro
        if row.provisional_micro:
            open_from = min(open_from or at, at)
    series = charts.folded(
        [
            charts.Series(name=name, values=tuple(max(0, sums.get(key, 0)) for key in keys))
            for name, sums in sorted(numbers.items())
            if any(sums.values())
        ],
        "others",
    )
    first_open = None if open_from is None or open_from not in keys else keys.index(open_from)
    drawn = [
        charts.stacked_bars(
            labels,
            series,
            width=width,
            height=height,
            name=name,
            text=formats.short_amount,
            open_from=first_open,
        )
        for width, height, name in ((charts.BROAD, 230, "broad"), (charts.NARROW, 200, "narrow"))
    ]
    shown = {
        "charts": drawn,
        "legend": [(one.name, number) for number, one in enumerate(series, start=1)],
        "open_label": "provisional: can still change" if first_open is not None else "",
    }
    return shown, f"{bucket} and {heading(by).lower()}"


def _months(today: date) -> list[str]:
    """The running one and those before."""
    numbers = [today.year * 12 + today.month - 1 - back for back in range(MONTHS)]
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]

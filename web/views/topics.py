"""Topics: list, detail with what the brokers say now, create, edit, delete."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.outbox import in_request
from control_plane.topics import actions, creation, queries
from control_plane.topics.models import Topic
from penstock.contract.errors import NotFound, PenstockError
from quotas.queries import limits_of
from tenants.roles import Permission
from web import charts, live, notices
from web.broker_access import brokers
from web.flows import flows
from web.forms.console_form import posted
from web.forms.topics import DeleteTopicForm, EditTopicForm, NewTopicForm
from web.paging import page_of
from web.places import Place, in_tenant
from web.unscripted import first_answer

PER_PAGE = 50
PARTITIONS_PER_PAGE = 50
SEARCH_MAX = 249


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topics(request: HttpRequest, place: Place) -> HttpResponse:
    """All topics, or those whose name has a text in it."""
    wanted = request.GET.get("q", "").strip()[:SEARCH_MAX].replace("\0", "")
    rows = queries.topics(place.tenant).order_by("name")
    whole = rows.count()
    if wanted:
        rows = rows.filter(name__icontains=wanted)
    page = page_of(request, rows, PER_PAGE)
    context = {
        "here": "topics",
        "page": page,
        "q": wanted,
        "whole": whole,
        "partitions": sum(queries.topics(place.tenant).values_list("partitions", flat=True)),
        "limits": limits_of(place.tenant),
        "copies_possible": queries.copies_possible(),
    }
    return render(request, "web/topics.html", context)


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """One topic as it is wanted; what the brokers say of it comes as a part."""
    row = queries.topic(place.tenant, name)
    context = {"here": "topics", "tab": "topic", "topic": row, "settings": shown_settings(row)}
    context |= first_answer(request, topic_live, tenant=place.tenant.name, name=name)
    return render(request, "web/topic.html", context)


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic_live(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """The part that changes: partitions with leaders, in-sync sets and offsets, and the rate."""
    row = queries.topic(place.tenant, name)
    context: dict[str, Any] = {"topic": row}
    if not place.may(Permission.GROUPS_READ):
        context["refused"] = True
    else:
        try:
            with brokers(place) as client:
                (now,) = live.topics_now(client, [client.topic(name, live.TIMEOUT_S)])
                read_back = live.read_back(client, now)
        except NotFound:
            context["pending"] = True
        except PenstockError as error:
            context["trouble"] = error
        else:
            rates = live.watch.sample(f"topic {now.topic_id}", now.written)
            longest = max((part.held for part in now.partitions), default=0)
            page = page_of(request, now.partitions, PARTITIONS_PER_PAGE)
            context |= {
                "now": now,
                "read_back": read_back,
                "rates": rates,
                "flows": flows(place.tenant.public_id, now.topic_id),
                "parts": [
                    (part, charts.pipe(part.held, part.held, longest, f"{part.held:,} messages", gate=False))
                    for part in page
                ],
                "page": page,
            }
    return render(request, "web/parts/topic_live.html", context)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_topic(request: HttpRequest, place: Place) -> HttpResponse:
    """Create a topic."""
    form = NewTopicForm(place.tenant, posted(request))
    if form.is_valid():
        try:
            row = creation.create_topic(
                place.actor,
                place.tenant,
                name=form.cleaned_data["name"],
                partitions=form.cleaned_data["partitions"],
                settings=form.settings,
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return _told(place, row, f"Topic {row.name} is made", f"Topic {row.name} is not there yet")
    return render(request, "web/topic_new.html", {"here": "topics", "form": form}, status=form.status)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_topic(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Change settings and add partitions."""
    row = queries.topic(place.tenant, name)
    form = EditTopicForm(row, posted(request))
    if form.is_valid():
        try:
            changed = actions.update_topic(
                place.actor,
                place.tenant,
                name,
                partitions=form.cleaned_data["partitions"],
                settings=form.settings,
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            if changed.generation == row.generation:
                return notices.put(redirect(place.url("topic", name)), "Nothing was changed.")
            return _told(place, changed, f"{name} is changed", f"The change of {name} is not there yet")
    context = {"here": "topics", "tab": "settings", "form": form, "topic": row}
    return render(request, "web/topic_edit.html", context, status=form.status)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def delete_topic(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Delete a topic, once its name was typed."""
    row = queries.topic(place.tenant, name)
    form = DeleteTopicForm(name, posted(request))
    if form.is_valid():
        try:
            gone = actions.delete_topic(place.actor, place.tenant, name)
        except PenstockError as error:
            form.refuse(error)
        else:
            in_request.deliver_now(actions.KIND_TOPIC, gone.public_id, gone.generation)
            return notices.put(redirect(place.url("topics")), f"Topic {name} is deleted.")
    context = {"here": "topics", "tab": "delete", "form": form, "topic": row}
    return render(request, "web/topic_delete.html", context, status=form.status)


def shown_settings(row: Topic) -> list[tuple[str, str, str]]:
    """(name, value, what it means) of the settings that people ask for first."""
    from web import formats

    settings, possible = row.settings, queries.copies_possible()
    basis = "event time" if settings["retention_basis"] == "event" else "acceptance"
    return [
        ("Retention", formats.span(settings["retention_ms"]), f"by {basis}"),
        ("Size limit", formats.limit_size(settings["retention_bytes"]), "per partition"),
        (
            "Copies",
            str(settings["replication"]),
            f"of which {settings['min_insync_replicas']} must be in sync to write"
            + (f"; the brokers could hold {possible}" if settings["replication"] < possible else ""),
        ),
        (
            "Durability",
            settings["durability"],
            "acknowledged when on disk"
            if settings["durability"] == "fsync"
            else "acknowledged when in memory",
        ),
        ("Largest message", formats.limit_size(settings["max_message_bytes"]), ""),
        (
            "Timestamps",
            settings["timestamp_type"],
            "set by the producer" if settings["timestamp_type"] == "create" else "set on arrival",
        ),
    ]


def _told(place: Place, row: Topic, done: str, waiting: str) -> HttpResponse:
    """To the topic, saying whether the brokers have it already, and what keeps them from it."""
    delivered = in_request.deliver_now(actions.KIND_TOPIC, row.public_id, row.generation)
    response = redirect(place.url("topic", row.name))
    if delivered:
        return notices.put(response, f"{done}.")
    told = queries.topic(place.tenant, row.name).conditions
    why = "; ".join(condition["message"] for condition in told) or "the brokers will hear of it in a moment"
    return notices.put(response, f"{waiting}: {why}.", "caution")

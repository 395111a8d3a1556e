"""Topics: list, detail with the brokers' present state, create, edit, delete."""

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.access.queries import person_may
from control_plane.outbox import in_request
from control_plane.placement.hot import hot_partitions_of
from control_plane.topics import actions, bin_actions, creation, queries
from control_plane.topics.hot_keys import HotKeysOfTopic
from control_plane.topics.models import Topic
from penstock.contract.errors import NotFound, PenstockError
from penstock.rules.access import CONSUME
from quotas.queries import limits_of
from tenants.roles import Permission
from web import charts, hot_keys, live, notices, topic_list
from web.broker_access import brokers
from web.flows import flows
from web.forms.console_form import posted
from web.forms.topics import DeleteTopicForm, EditTopicForm, NewTopicForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant
from web.unscripted import first_answer

PARTITIONS_PER_PAGE = 50


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topics(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The topics that are searched for. What the brokers say of them is a part that the page asks for periodically."""
    rows = queries.topics(access.tenant).values_list("partitions", flat=True)
    context = {
        "here": "topics",
        "whole": len(rows),
        "partitions": sum(rows),
        "limits": limits_of(access.tenant),
        **topic_list.shown(request, access, {}),
        **first_answer(request, topics_live, tenant=access.tenant.name),
    }
    return render(request, "web/topics.html", context)


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topics_live(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The list with messages, rates and lag, for those who may see groups."""
    now = topic_list.now_of(access) if access.may(Permission.GROUPS_READ) else {}
    return render(request, "web/parts/topics_live.html", topic_list.shown(request, access, now))


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """One topic's desired state. The brokers' state of it is a part of the page."""
    row = queries.topic(access.tenant, name)
    context = {"here": "topics", "tab": "topic", "topic": row, "settings": shown_settings(row)}
    context |= first_answer(request, topic_live, tenant=access.tenant.name, name=name)
    return render(request, "web/topic.html", context)


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic_live(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """The part that changes: partitions with leaders, in-sync sets and offsets, and the rate."""
    row = queries.topic(access.tenant, name)
    context: dict[str, Any] = {"topic": row}
    if not access.may(Permission.GROUPS_READ):
        context["refused"] = True
    else:
        try:
            with brokers(access) as client:
                (now,) = live.topics_now(client, [client.topic(name, live.TIMEOUT_S)])
                read_back = live.read_back(client, now)
        except NotFound:
            context["pending"] = True
        except PenstockError as error:
            context["trouble"] = error
        else:
            rates = live.watch.sample(f"topic {now.topic_id}", now.written)
            longest = max((part.stored for part in now.partitions), default=0)
            page = page_of(request, now.partitions, PARTITIONS_PER_PAGE)
            context |= {
                "now": now,
                "read_back": read_back,
                "survives": queries.survives(row),
                "hot": hot_partitions_of(row.topic_id),
                "keys": _hot_keys(access, row),
                "rates": rates,
                "flows": flows(access.tenant.public_id, now.topic_id),
                "parts": [
                    (
                        part,
                        charts.pipe(
                            part.stored, part.stored, longest, f"{part.stored:,} messages", gate=False
                        ),
                    )
                    for part in page
                ],
                "page": page,
            }
    return render(request, "web/parts/topic_live.html", context)


def _hot_keys(access: TenantAccess, row: Topic) -> HotKeysOfTopic | None:
    """For those who may read the topic's messages; None for others, and while no broker answers."""
    if not access.may(Permission.MESSAGES_READ) or not person_may(
        access.tenant, access.person, CONSUME, row.name, access.actor.source
    ):
        return None
    return hot_keys.seen.of(access.tenant, row.name, row.topic_id)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_topic(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Create a topic."""
    form = NewTopicForm(access.tenant, posted(request))
    if form.is_valid():
        try:
            row = creation.create_topic(
                access.actor,
                access.tenant,
                name=form.cleaned_data["name"],
                partitions=form.cleaned_data["partitions"],
                settings=form.settings,
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return _delivered(access, row, f"Topic {row.name} is made", f"Topic {row.name} is not made yet")
    return render(request, "web/topic_new.html", {"here": "topics", "form": form}, status=form.status)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_topic(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """Change settings and add partitions."""
    row = queries.topic(access.tenant, name)
    form = EditTopicForm(row, posted(request))
    if form.is_valid():
        try:
            changed = actions.update_topic(
                access.actor,
                access.tenant,
                name,
                partitions=form.cleaned_data["partitions"],
                settings=form.settings,
            )
            if changed.generation == row.generation:
                return notices.put(redirect(access.url("topic", name)), "Nothing was changed.")
            take_back = partial(actions.take_back, access.actor, changed, row)
            in_request.deliver_or_take_back(
                actions.KIND_TOPIC, changed.public_id, changed.generation, take_back
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return _delivered(
                access, changed, f"{name} is changed", f"The change of {name} is not delivered yet"
            )
    context = {"here": "topics", "tab": "settings", "form": form, "topic": row}
    return render(request, "web/topic_edit.html", context, status=form.status)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def delete_topic(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """Put a topic into the recycle bin, or delete it where there is none, after its name was typed."""
    row = queries.topic(access.tenant, name)
    form = DeleteTopicForm(name, posted(request))
    if form.is_valid():
        try:
            gone = bin_actions.remove_topic(access.actor, access.tenant, name)
        except PenstockError as error:
            form.refuse(error)
        else:
            delivered = in_request.deliver_now(actions.KIND_TOPIC, gone.public_id, gone.generation)
            where = "in the recycle bin" if gone.deleted_at is None else "deleted"
            text = f"Topic {name} is {where}."
            if not delivered:
                text = f"Topic {name} is {where}; the brokers will hear of it in a moment."
            return notices.put(redirect(access.url("topics")), text, "ok" if delivered else "caution")
    # Only what holds now is promised.
    keeps = row.on_brokers and queries.bin_possible()
    days = limits_of(access.tenant).bin_days if keeps else 0
    context = {"here": "topics", "tab": "delete", "form": form, "topic": row, "days": days}
    return render(request, "web/topic_delete.html", context, status=form.status)


def shown_settings(row: Topic) -> list[tuple[str, str, str]]:
    """(name, value, meaning) of the most important settings."""
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
            + (f"; {possible} are possible" if settings["replication"] < possible else ""),
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


def _delivered(access: TenantAccess, row: Topic, done: str, waiting: str) -> HttpResponse:
    """Redirect to the topic with a notice: whether the brokers have the change, and if not, why."""
    now = queries.topic(access.tenant, row.name)
    response = redirect(access.url("topic", row.name))
    if now.delivered_generation >= row.generation:
        return notices.put(response, f"{done}.")
    why = "; ".join(condition["message"] for condition in now.conditions) or "the brokers get it in a moment"
    return notices.put(response, f"{waiting}: {why}.", "caution")

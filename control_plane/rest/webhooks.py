"""REST: a tenant's webhooks, their secrets, test events, and what became of their attempts."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.api.pages import Key, KeyedList
from control_plane.rest import described
from control_plane.rest.views import TenantView
from control_plane.webhooks import actions, queries
from control_plane.webhooks.models import Webhook, WebhookAttempt
from control_plane.webhooks.shown import shown_url
from penstock.contract.resources import WEBHOOKS
from penstock.contract.resources.description import Method
from tenants.roles import Permission, allowed

OVERLAP_S = 24 * 3600

WebhookInput = described.made_of(WEBHOOKS, "WebhookInput")
WebhookChange = described.change_of(WEBHOOKS.fields, "WebhookChange")


class ResumeInput(shapes.StrictSerializer):
    skip_waiting = serializers.BooleanField(
        required=False, default=False, help_text="Leave out what happened until now."
    )


class SecretRotationInput(shapes.StrictSerializer):
    overlap_s = serializers.IntegerField(
        required=False,
        default=OVERLAP_S,
        help_text=f"How long the old secret signs beside the new one, 0 to "
        f"{actions.OVERLAP_MAX.total_seconds():.0f} seconds.",
    )


class _WithAddress(serializers.Serializer[Any]):
    def to_representation(self, instance: Webhook) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        # `whole`: the caller may change it, and so reads all of its address.
        return shown if self.context.get("whole") else {**shown, "url": shown_url(instance.url)}


WebhookShape = described.shape_of(
    WEBHOOKS.fields,
    "WebhookShape",
    _WithAddress,
    sources={"id": "public_id", "next_attempt_at": "due_at", "old_secret_until": "previous_until"},
)


class OneWebhookShape(WebhookShape):  # type: ignore[misc,valid-type]
    waiting = serializers.SerializerMethodField(
        help_text="Events of its sources that it has not come to, whatever it takes of them."
    )

    def get_waiting(self, row: Webhook) -> int:
        return queries.waiting(row)


class NewWebhookShape(OneWebhookShape):
    secret = serializers.SerializerMethodField(help_text="Shown once: what its events are signed with.")

    def get_secret(self, row: Webhook) -> str:
        return str(self.context["secret"])


class PingShape(serializers.Serializer[Any]):
    event_id = serializers.CharField(help_text="As the attempt has it in the log.")


class AttemptShape(serializers.Serializer[Any]):
    event_id = serializers.CharField()
    event_type = serializers.CharField()
    number = serializers.IntegerField(help_text="1 is the first attempt of the event.")
    at = shapes.Moment()
    duration_ms = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True, help_text="null: there was no answer.")
    delivered = serializers.BooleanField()
    error = serializers.CharField(help_text="Why it was not delivered; empty: it was.")


def tag_of(row: Webhook) -> str:
    return etags.of_content(row.public_id, row.name, row.url, row.events, row.state, row.secret)


class _ShowingView(TenantView):
    def context(self, **more: str) -> dict[str, Any]:
        """For the shapes."""
        return {"whole": allowed(self.access.standing, Permission.WEBHOOKS_WRITE), **more}


class _WebhookView(_ShowingView):
    def unchanged(self, request: Request, webhook: str) -> AbstractContextManager[None]:
        """The block changes it if it is still as the request's condition says."""
        return etags.unchanged_within(
            request, self.tenant, lambda: tag_of(queries.webhook(self.tenant, webhook))
        )

    def shown(self, row: Webhook) -> Response:
        return Response(OneWebhookShape(row, context=self.context()).data, headers={"ETag": tag_of(row)})


@described.operations(
    WEBHOOKS, Method.LIST, Method.CREATE, shape=WebhookShape, takes=WebhookInput, changed=NewWebhookShape
)
class WebhooksView(_ShowingView):
    def get(self, request: Request) -> Response:
        return self.paged(queries.webhooks(self.tenant), WebhookShape, context=self.context())

    def post(self, request: Request) -> Response:
        body = described.taken(request, WebhookInput)
        row, secret = actions.create(self.actor, self.tenant, **body)
        shown = NewWebhookShape(row, context=self.context(secret=secret))
        return Response(shown.data, status=201, headers={"ETag": tag_of(row)})


@described.operations(
    WEBHOOKS, Method.READ, Method.CHANGE, Method.REMOVE, shape=OneWebhookShape, takes=WebhookChange
)
class WebhookView(_WebhookView):
    def get(self, request: Request, webhook: str) -> Response:
        return self.shown(queries.webhook(self.tenant, webhook))

    def patch(self, request: Request, webhook: str) -> Response:
        body = described.taken(request, WebhookChange)
        with self.unchanged(request, webhook):
            return self.shown(actions.change(self.actor, self.tenant, webhook, **body))

    def delete(self, request: Request, webhook: str) -> Response:
        with self.unchanged(request, webhook):
            actions.delete(self.actor, self.tenant, webhook)
        return Response(status=204)


class AttemptsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.WEBHOOKS_READ}

    @extend_schema(
        operation_id="webhooks_attempts",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={
            200: shapes.listed("WebhookAttempt", AttemptShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request, webhook: str) -> Response:
        """The last attempts, newest first."""
        row = queries.webhook(self.tenant, webhook)

        def read_after(after: Key | None, most: int) -> Sequence[WebhookAttempt]:
            return queries.attempts_before(row, None if after is None else -int(after[0]), most)

        return self.paged(KeyedList(read_after=read_after, key=lambda one: (-one.pk,)), AttemptShape)


class PingView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.WEBHOOKS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="webhooks_ping",
        request=None,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={202: PingShape, **shapes.problems(403, 404)},
    )
    def post(self, request: Request, webhook: str) -> Response:
        """Send a test event of the type `webhook.ping`, also while it is off. Tried once; the log has the result."""
        _, event_id = actions.ping(self.actor, self.tenant, webhook)
        return Response(PingShape({"event_id": event_id}).data, status=202)


class ResumeView(_WebhookView):
    permissions: ClassVar[Any] = {"POST": Permission.WEBHOOKS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="webhooks_resume",
        request=ResumeInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={200: OneWebhookShape, **shapes.problems(403, 404)},
    )
    def post(self, request: Request, webhook: str) -> Response:
        """Go on with the first event that was not taken, at once, instead of after the pause or never."""
        body = described.taken(request, ResumeInput)
        return self.shown(actions.resume(self.actor, self.tenant, webhook, **body))


class RotationView(_ShowingView):
    permissions: ClassVar[Any] = {"POST": Permission.WEBHOOKS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="webhooks_rotate",
        request=SecretRotationInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: NewWebhookShape, **shapes.problems(403, 404)},
    )
    def post(self, request: Request, webhook: str) -> Response:
        """A new secret. Until the overlap is over, each event has a signature by the old one too."""
        overlap_s = described.taken(request, SecretRotationInput)["overlap_s"]
        overlap = timedelta(seconds=max(-1, min(overlap_s, 10**9)))
        row, secret = actions.rotate(self.actor, self.tenant, webhook, overlap=overlap)
        shown = NewWebhookShape(row, context=self.context(secret=secret))
        return Response(shown.data, status=201, headers={"ETag": tag_of(row)})

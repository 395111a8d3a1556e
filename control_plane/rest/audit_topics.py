"""REST: the topic with a tenant's audit log: whether it is on, how long it keeps entries, and how far it is behind."""

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.audit_topics import actions, queries
from control_plane.audit_topics.models import OFF, ON
from control_plane.audit_topics.queries import AuditTopicState
from control_plane.rest.views import TenantView
from tenants.roles import Permission


class AuditTopicChange(shapes.StrictSerializer):
    state = serializers.ChoiceField(
        required=False,
        choices=[ON, OFF],
        help_text="`on`: the log is written to the topic, which is made if there is none; `off`: it goes on where it"
        " stopped once it is on again.",
    )
    retention_ms = serializers.IntegerField(
        required=False, help_text="How long the topic keeps entries at least; -1 = without an end."
    )


class AuditTopicShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    topic = serializers.CharField()
    state = serializers.ChoiceField(choices=[ON, OFF])
    exists = serializers.BooleanField(help_text="There is such a topic; it stays when it is switched off.")
    retention_ms = serializers.IntegerField(help_text="-1 = without an end.")
    position = serializers.IntegerField(help_text="Sequence of the newest entry that the topic has.")
    newest = serializers.IntegerField(help_text="Sequence of the newest entry of the log.")
    lag = serializers.IntegerField(help_text="Entries that the topic does not have yet.")
    delivered_at = shapes.Moment(allow_null=True, help_text="When entries came into the topic last.")
    failures = serializers.IntegerField(help_text="Failed attempts one after another.")
    failing_since = shapes.Moment(allow_null=True)
    problem = serializers.CharField(help_text="Why the last attempt failed; empty: it did not.")


def tag_of(state: AuditTopicState) -> str:
    return etags.of_content(state.tenant, state.state, state.retention_ms, state.exists)


class AuditTopicView(TenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.AUDIT_READ,
        "PATCH": Permission.AUDIT_EXPORT,
        "DELETE": Permission.AUDIT_EXPORT,
    }
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="audit_topic_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: AuditTopicShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The topic with the audit log, and how far it is behind."""
        return self._shown()

    @extend_schema(
        operation_id="audit_topic_change",
        request=AuditTopicChange,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: AuditTopicShape, **shapes.problems(403, 404, 412, 422)},
    )
    def patch(self, request: Request) -> Response:
        """Switch it on or off, or keep entries for another time. A new topic gets the log from its beginning."""
        given = AuditTopicChange(data=request.data)
        given.is_valid(raise_exception=True)
        with self._unchanged(request):
            actions.change(self.actor, self.tenant, **given.validated_data)
            return self._shown()

    @extend_schema(
        operation_id="audit_topic_delete",
        parameters=[shapes.TENANT, shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request) -> Response:
        """Switch it off and delete the topic for good. The log itself stays."""
        with self._unchanged(request):
            actions.delete(self.actor, self.tenant)
        return Response(status=204)

    def _unchanged(self, request: Request) -> AbstractContextManager[None]:
        return etags.unchanged_within(request, self.tenant, lambda: tag_of(queries.state_of(self.tenant)))

    def _shown(self) -> Response:
        state = queries.state_of(self.tenant)
        return Response(AuditTopicShape(state).data, headers={"ETag": tag_of(state)})

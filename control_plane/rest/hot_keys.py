"""REST: frequent keys of a topic."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access.queries import person_may
from control_plane.api import shapes
from control_plane.rest.views import TenantView
from control_plane.topics import queries
from control_plane.topics.hot_keys import hot_keys
from penstock.contract.errors import Forbidden
from penstock.rules.access import CONSUME, TOPIC
from tenants.roles import Permission


class HotKeyShape(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Its first 256 bytes at most.")
    encoding = serializers.ChoiceField(
        ["utf-8", "base64"], help_text="`utf-8`: as text; `base64`: it is no printable text."
    )
    size = serializers.IntegerField(help_text="Of the whole key, in bytes.")
    cut = serializers.BooleanField(help_text="Only its beginning is known.")
    share_percent = serializers.IntegerField(
        help_text="Of the partition's messages, at least: of producers that do not report nothing is known."
    )


class HotKeysOfPartitionShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    messages = serializers.IntegerField(help_text="That its leader took in about the last minute.")
    keys = HotKeyShape(many=True, help_text="Those with the largest share first, at most 16.")


class HotKeysShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    topic_id = serializers.CharField()
    partitions = HotKeysOfPartitionShape(
        many=True, help_text="Those of which producers reported keys within the last two minutes."
    )
    silent_brokers = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="They did not answer, or are of a release that does not know hot keys: what they lead is left out.",
    )


class HotKeysView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.MESSAGES_READ}

    @extend_schema(
        operation_id="topics_hot_keys",
        parameters=[shapes.TENANT],
        responses={200: HotKeysShape, **shapes.problems(403, 404, 503)},
    )
    def get(self, request: Request, name: str) -> Response:
        """For each partition: the keys that are a large part of its messages, from samples that producers take. It is
        for those who may read the topic's messages.
        """
        queries.topic(self.tenant, name, self.access.visible)
        self._require_reader(name)
        return Response(HotKeysShape(hot_keys(self.tenant, name, self.access.visible)).data)

    def _require_reader(self, name: str) -> None:
        """Raise `Forbidden` unless the caller may consume the topic by scopes and access list."""
        rights, person = self.access.rights, self.caller.person
        if rights is not None:
            may = rights.allows(CONSUME, TOPIC, name)
        else:
            may = person is not None and person_may(
                self.tenant, person, CONSUME, name, self.caller.actor.source
            )
        if not may:
            raise Forbidden(f"topic {name[:64]!r}: its keys are for those who may consume it")

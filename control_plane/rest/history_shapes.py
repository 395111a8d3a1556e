"""Shapes of histories and restores, and the pages of a history."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from control_plane.access.history import Removed
from control_plane.access.restore_actions import AccountRestored, GroupRestored, ListRestored
from control_plane.api import shapes
from control_plane.api.pages import Key, KeyedList
from control_plane.audit.versions import SEQUENCE_MAX, Changes, Version
from control_plane.rest.access_shapes import (
    AccessShape,
    AccountShape,
    AclShape,
    GroupShape,
    ListDelivery,
)


class VersionField(serializers.IntegerField):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            min_value=1,
            max_value=SEQUENCE_MAX,
            help_text="`version` of an item of the history.",
            **options,
        )


class LeaveOutField(serializers.BooleanField):
    def __init__(self) -> None:
        super().__init__(
            required=False,
            default=False,
            help_text="true: restore without what names a principal that is gone. Without it, that is refused.",
        )


class VersionInput(shapes.StrictSerializer):
    version = VersionField()


class ListVersionInput(shapes.StrictSerializer):
    version = VersionField(required=False)
    at = serializers.DateTimeField(required=False, help_text="As it was then. Either this or `version`.")
    leave_out_gone = LeaveOutField()


class GroupVersionInput(shapes.StrictSerializer):
    version = VersionField(required=False)
    name = serializers.CharField(
        required=False, max_length=200, help_text="For a removed group whose name is taken."
    )
    leave_out_gone = LeaveOutField()


class NameInput(shapes.StrictSerializer):
    name = serializers.CharField(
        required=False, max_length=200, help_text="Another name, where its own is taken."
    )


class KeyAgainInput(shapes.StrictSerializer):
    expires_at = serializers.DateTimeField(
        required=False,
        help_text="Without it the new key ends when the old one would have, if that is still to come.",
    )


# The context has the tenant's `days`: how long what was replaced can be restored.
class VersionShape(serializers.Serializer[Any]):
    """The object after a change."""

    version = serializers.IntegerField(source="number", help_text="Number of the change in the audit log.")
    at = shapes.Moment(source="entry.at")
    actor_kind = serializers.CharField(source="entry.actor_kind")
    actor_id = serializers.CharField(source="entry.actor_id")
    action = serializers.CharField(source="entry.action")
    object_id = serializers.CharField(source="entry.object_id")
    fields = shapes.FieldChange(many=True, help_text="What the change changed.")  # type: ignore[assignment]
    replaced_at = shapes.Moment(
        allow_null=True, help_text="When the next change was made; null: there is none."
    )
    restorable_until = serializers.SerializerMethodField(
        help_text="`bin_days` after it was replaced; null: it is the newest version."
    )

    @extend_schema_field(shapes.Moment(allow_null=True))
    def get_restorable_until(self, version: Version) -> str | None:
        if version.replaced_at is None:
            return None
        return (version.replaced_at + timedelta(days=int(self.context["days"]))).isoformat()


class RemovedShape(serializers.Serializer[Any]):
    """Something that is gone, and can be restored."""

    kind = serializers.ChoiceField(("acl", "principal_group", "service_account", "key"))
    id = serializers.CharField(source="entry.object_id")
    text = serializers.CharField(help_text="What it is: an entry in words, or a name.")
    removed_at = shapes.Moment(source="entry.at")
    actor_kind = serializers.CharField(source="entry.actor_kind")
    actor_id = serializers.CharField(source="entry.actor_id")
    until = shapes.Moment(help_text="How long it can be restored.")
    version = serializers.IntegerField(source="entry.sequence")


class LeftOut(serializers.Serializer[Any]):
    principal = serializers.CharField()
    name = serializers.CharField(help_text="As it was called; empty where that is not known.")


# Of a tenant's list, as `AccessShape`; the context has the `found`, too.
class RestoredAccess(AccessShape, shapes.Delivery):
    added = serializers.SerializerMethodField()
    removed = serializers.SerializerMethodField()
    left_out = serializers.SerializerMethodField(help_text="Principals that are gone.")

    @extend_schema_field(AclShape(many=True))
    def get_added(self, _: object) -> Any:
        return AclShape(self._found.added, many=True).data

    @extend_schema_field(AclShape(many=True))
    def get_removed(self, _: object) -> Any:
        return AclShape(self._found.removed, many=True).data

    @extend_schema_field(LeftOut(many=True))
    def get_left_out(self, _: object) -> Any:
        return left_out(self._found.left_out)

    @property
    def _found(self) -> ListRestored:
        found: ListRestored = self.context["found"]
        return found


# The context has the `found`, too.
class RestoredGroup(GroupShape, ListDelivery):
    left_out = serializers.SerializerMethodField(help_text="Members that are gone.")

    @extend_schema_field(LeftOut(many=True))
    def get_left_out(self, _: object) -> Any:
        found: GroupRestored = self.context["found"]
        return left_out(found.left_out)


# The context has the `found`, too.
class RestoredAccount(AccountShape, ListDelivery):
    acls = serializers.SerializerMethodField(help_text="Entries that came back with it.")
    groups = serializers.SerializerMethodField(help_text="Ids of the groups that hold it again.")
    left_out = serializers.SerializerMethodField(help_text="Ids of groups that held it, and are gone.")

    @extend_schema_field(AclShape(many=True))
    def get_acls(self, _: object) -> Any:
        return AclShape(self._found.entries, many=True).data

    def get_groups(self, _: object) -> list[str]:
        return [group.public_id for group in self._found.groups]

    def get_left_out(self, _: object) -> list[str]:
        return list(self._found.left_out)

    @property
    def _found(self) -> AccountRestored:
        found: AccountRestored = self.context["found"]
        return found


def left_out(missing: dict[str, str]) -> Any:
    """Those principals, as `LeftOut`."""
    rows = [{"principal": principal, "name": name} for principal, name in missing.items()]
    return LeftOut(rows, many=True).data


def pages_of(changes: Changes) -> KeyedList:
    """A history, the newest version first."""
    return KeyedList(
        read_after=lambda after, most: changes.page(_below(after), most),
        key=lambda version: (version.number,),
    )


def pages_of_removed(read: Any) -> KeyedList:
    """What can be restored, the newest removal first. `read` as `history.removed`, of a tenant."""

    def key(item: Removed) -> Key:
        return (item.entry.sequence,)

    return KeyedList(read_after=lambda after, most: read(_below(after), most), key=key)


def _below(after: Key | None) -> int | None:
    return None if after is None else int(after[0])

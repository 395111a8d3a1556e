"""Keys that are there learn from the audit log who made them."""

from typing import Any

from django.db import migrations

GENERATIONS_MAX = 1000
"""Keys that make keys that make keys: a chain of entries has no circle, and this bounds it."""


def name_makers(apps: Any, schema_editor: Any) -> None:
    """The person who made the key, or made the key that made it."""
    entries = apps.get_model("audit", "AuditEntry").objects.filter(action="key.create")
    made_by = {
        entry.object_id: (entry.actor_kind, entry.actor_id)
        for entry in entries.only("object_id", "actor_kind", "actor_id").iterator()
    }
    people = {
        person.public_id: person.pk
        for person in apps.get_model("tenants", "Person").objects.only("public_id")
    }
    for key in apps.get_model("tenants", "ApiKey").objects.only("pk", "public_id").iterator():
        kind, actor = made_by.get(key.public_id, ("system", ""))
        for _ in range(GENERATIONS_MAX):
            if kind != "key":
                break
            kind, actor = made_by.get(actor, ("system", ""))
        if kind == "person" and actor in people:
            apps.get_model("tenants", "ApiKey").objects.filter(pk=key.pk).update(maker_id=people[actor])


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0003_makers_of_keys"),
        ("audit", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(name_makers, migrations.RunPython.noop),
    ]

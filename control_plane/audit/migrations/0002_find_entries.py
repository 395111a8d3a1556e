"""Entries are found by outcome, object and time; what is refused or read often is counted before it is chained."""

from typing import Any

from django.db import migrations, models

from penstock.contract.audit_entries import facts

FACTS = ("outcome", "times", "object_kind", "object_name")


def classify(apps: Any, schema_editor: Any) -> None:
    """Read out of each entry's hashed fields what it is found by."""
    entries = apps.get_model("audit", "AuditEntry").objects
    last = 0
    while rows := list(entries.filter(pk__gt=last).order_by("pk")[:2_000]):
        for row in rows:
            of_entry = facts(row.action, row.before, row.after)
            for name in FACTS:
                setattr(row, name, getattr(of_entry, name))
        entries.bulk_update(rows, FACTS, batch_size=500)
        last = rows[-1].pk


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditTally",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tenant", models.CharField(max_length=40)),
                ("minute", models.DateTimeField()),
                ("outcome", models.CharField(max_length=16)),
                ("actor_kind", models.CharField(max_length=16)),
                ("actor_id", models.CharField(max_length=64)),
                ("action", models.CharField(max_length=64)),
                ("times", models.PositiveBigIntegerField()),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("source", models.CharField(blank=True, max_length=64)),
            ],
        ),
        migrations.AddField(
            model_name="auditentry",
            name="object_kind",
            field=models.CharField(blank=True, db_default="", max_length=64),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="object_name",
            field=models.CharField(blank=True, db_default="", max_length=255),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="outcome",
            field=models.CharField(db_default="done", max_length=16),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="times",
            field=models.PositiveBigIntegerField(db_default=1),
        ),
        migrations.RunPython(classify, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "at", "sequence"], name="audit_by_time"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "actor_id", "at", "sequence"], name="audit_by_actor"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "object_id", "at", "sequence"], name="audit_by_object"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "object_kind", "at", "sequence"], name="audit_by_kind"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "action", "at", "sequence"], name="audit_by_action"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("object_name", ""), _negated=True),
                fields=["tenant", "object_name", "object_id"],
                name="audit_by_name",
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("outcome", "refused")),
                fields=["tenant", "at", "sequence"],
                name="audit_refused",
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("object_kind", "")), fields=["id"], name="audit_unclassified"
            ),
        ),
        migrations.AddIndex(
            model_name="audittally",
            index=models.Index(fields=["minute", "tenant"], name="audit_tally_by_minute"),
        ),
    ]

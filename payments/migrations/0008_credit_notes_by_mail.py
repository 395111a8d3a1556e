"""Credit notes are sent by e-mail; those that were issued before are not."""

from typing import Any

from django.db import migrations, models
from django.db.models import Count


def nothing_of_before(apps: Any, schema_editor: Any) -> None:
    receivables = apps.get_model("payments", "Receivable")
    rows = receivables.objects.filter(invoice__credit_notes__isnull=False)
    for row in rows.annotate(notes=Count("invoice__credit_notes")).iterator():
        receivables.objects.filter(pk=row.pk).update(notes_mailed=row.notes)


class Migration(migrations.Migration):
    dependencies = (("payments", "0007_changed_at_stripe"), ("billing", "0021_granted_credits"))

    operations = (
        migrations.AddField(
            "receivable", "notes_mailed", models.PositiveIntegerField(db_default=0, default=0)
        ),
        migrations.RunPython(nothing_of_before, migrations.RunPython.noop),
    )

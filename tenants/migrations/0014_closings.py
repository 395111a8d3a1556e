"""The times in which tenants were closed. Those that are closed now have one."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def note_closed(apps: Any, schema_editor: Any) -> None:
    closing = apps.get_model("tenants", "Closing")
    for tenant in apps.get_model("tenants", "Tenant").objects.exclude(closed_at=None).order_by("pk"):
        closing.objects.create(tenant=tenant, closed_at=tenant.closed_at)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0013_principal_numbers")]

    operations = [
        migrations.CreateModel(
            name="Closing",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("closed_at", models.DateTimeField()),
                ("reopened_at", models.DateTimeField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="closings",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.RunPython(note_closed, migrations.RunPython.noop),
    ]

"""A service that has tenants when it is upgraded promises levels from the next month on, and posts no earlier one."""

from datetime import timedelta
from typing import Any

from django.db import migrations, models
from django.utils import timezone

from penstock.contract.ids import SYSTEM_TENANT


def begin_with_the_next_month(apps: Any, schema_editor: Any) -> None:
    if apps.get_model("tenants", "Tenant").objects.exclude(public_id=SYSTEM_TENANT).exists():
        first = (timezone.now().date().replace(day=1) + timedelta(days=32)).replace(day=1)
        apps.get_model("billing", "ServiceLevelStart").objects.create(first=first)


class Migration(migrations.Migration):
    dependencies = [("billing", "0014_service_levels")]

    operations = [
        migrations.CreateModel(
            name="ServiceLevelStart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first", models.DateField()),
            ],
        ),
        migrations.RunPython(begin_with_the_next_month, migrations.RunPython.noop),
    ]

"""Sign-ins get ids, addresses and browsers; passwords can be chosen anew by a link."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

import control_plane.ids


def name_sign_ins(apps: Any, schema_editor: Any) -> None:
    """Each session that is there gets an id of its own."""
    sessions = apps.get_model("tenants", "Session").objects
    for session in sessions.only("pk").iterator():
        sessions.filter(pk=session.pk).update(public_id=control_plane.ids.new_sign_in_id())


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_name_makers")]

    operations = [
        migrations.AddField(
            "Session", "public_id", models.CharField(default="", max_length=40), preserve_default=False
        ),
        migrations.AddField(
            "Session", "source", models.CharField(default="", max_length=64), preserve_default=False
        ),
        migrations.AddField(
            "Session", "browser", models.CharField(default="", max_length=200), preserve_default=False
        ),
        migrations.RunPython(name_sign_ins, migrations.RunPython.noop),
        migrations.AlterField(
            "Session",
            "public_id",
            models.CharField(default=control_plane.ids.new_sign_in_id, max_length=40, unique=True),
        ),
        migrations.CreateModel(
            name="PasswordReset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="resets",
                        to="tenants.person",
                    ),
                ),
            ],
        ),
    ]

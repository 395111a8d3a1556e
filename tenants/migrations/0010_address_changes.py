"""Changes of people's addresses, and tenants that require second factors."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0009_closing"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="factors_from",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="AddressChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("before", models.EmailField(max_length=254)),
                ("after", models.EmailField(max_length=254)),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("undo_hash", models.CharField(max_length=64, null=True, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("undo_until", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="address_changes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["before"], name="tenants_address_before")]},
        ),
    ]

"""Scopes of keys that name a kind of resource or one resource, access lists, and groups of principals."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0001_initial"),
        ("tenants", "0007_service_accounts_end"),
    ]

    operations = [
        migrations.AddField(
            model_name="keybinding",
            name="literal",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="keybinding",
            name="resource",
            field=models.CharField(blank=True, default="", max_length=20),
        ),
        migrations.CreateModel(
            name="TenantAccessList",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("generation", models.PositiveBigIntegerField(default=1)),
                ("delivered_generation", models.PositiveBigIntegerField(default=0)),
                ("delivered_revision", models.PositiveBigIntegerField(default=0)),
                ("conditions", models.JSONField(blank=True, default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("default", models.CharField(default="allow", max_length=8)),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="access",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="AclEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("effect", models.CharField(max_length=8)),
                ("principal", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=20)),
                ("name", models.CharField(blank=True, max_length=249)),
                ("literal", models.BooleanField(default=False)),
                ("operations", models.JSONField(default=list)),
                ("addresses", models.JSONField(default=list)),
                ("fingerprint", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="acls", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "fingerprint"), name="access_no_entry_twice")
                ],
            },
        ),
        migrations.CreateModel(
            name="PrincipalGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("name", models.CharField(max_length=100)),
                ("members", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="principal_groups",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="access_one_group_a_name")
                ],
            },
        ),
    ]

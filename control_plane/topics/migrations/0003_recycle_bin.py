"""Topics can lie in the recycle bin, and their names be another topic's meanwhile.

On the way back what is in the bin counts as deleted: the version before knows no bin, and two topics of one name are
against its rules. Its reconciliation then has the brokers delete it.
"""

from typing import Any

from django.db import migrations, models
from django.db.models import F


def _empty_bins(apps: Any, schema_editor: Any) -> None:
    topics = apps.get_model("topics", "Topic")
    in_bins = topics.objects.filter(deleted_at=None).exclude(binned_at=None)
    in_bins.update(deleted_at=F("binned_at"), generation=F("generation") + 1)


class Migration(migrations.Migration):
    dependencies = (("topics", "0002_copies"),)

    operations = (
        migrations.AddField(model_name="topic", name="binned_at", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="topic", name="purge_at", field=models.DateTimeField(null=True)),
        migrations.RemoveConstraint(model_name="topic", name="topics_one_topic_a_name"),
        migrations.AddConstraint(
            model_name="topic",
            constraint=models.UniqueConstraint(
                condition=models.Q(("binned_at__isnull", True), ("deleted_at__isnull", True)),
                fields=("tenant", "name"),
                name="topics_one_topic_a_name",
            ),
        ),
        migrations.RunPython(migrations.RunPython.noop, _empty_bins),
    )

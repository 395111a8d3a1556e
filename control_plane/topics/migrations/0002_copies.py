"""Topics note that their number of copies changes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("topics", "0001_initial"),)

    operations = (
        migrations.AddField(model_name="topic", name="copies_due", field=models.BooleanField(default=False)),
    )

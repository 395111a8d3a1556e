"""Shares of assets by hour go: nothing read them, and margins divide what the infrastructure cost."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("billing", "0018_stated_tax")]

    operations = [migrations.DeleteModel(name="CostHour")]

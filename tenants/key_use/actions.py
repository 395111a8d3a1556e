"""Writes when API keys were last used: over REST, and at the brokers."""

from datetime import timedelta

from django.utils import timezone

from tenants.models import ApiKey

LAST_USED_STEP = timedelta(minutes=1)
"""`last_used_at` is written at most this often: reading must not write each time."""
_NOTED_AT_ONCE = 500
"""Keys of one look at the database."""


def note_key_used(key: ApiKey) -> None:
    """The key was shown and is right."""
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at >= LAST_USED_STEP:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def note_keys_used(ages_s: dict[str, float]) -> int:
    """Brokers served these keys (by the id in their text) so many seconds ago; how many are noted."""
    now = timezone.now()
    noted = 0
    wanted = sorted(ages_s)
    for start in range(0, len(wanted), _NOTED_AT_ONCE):
        rows = ApiKey.objects.filter(key_id__in=wanted[start : start + _NOTED_AT_ONCE])
        changed = []
        for row in rows.only("pk", "key_id", "last_used_at"):
            used_at = now - timedelta(seconds=ages_s[row.key_id])
            if row.last_used_at is None or used_at - row.last_used_at >= LAST_USED_STEP:
                row.last_used_at = used_at
                changed.append(row)
        ApiKey.objects.bulk_update(changed, ["last_used_at"])
        noted += len(changed)
    return noted

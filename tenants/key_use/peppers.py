"""Rotates the pepper: makes the next one, uses it once every broker has it, hashes keys under it, removes old ones.

    made     its file is in the folder; no key has it
    current  every active broker has it with the same content: new keys get it, and others as they are used
    old      some key has it still; one that is used moves to the current one
    gone     no key needs it, by the rows and by every active broker, for RETIRED_AFTER_S

A key's hash under another pepper follows from its text alone, so it is made when the key is shown: here over REST, and
by brokers, who give the hash in place of the text. Each step is a file that appears as a whole, so a process that is
killed between two of them leaves a state of these, and the next round goes on.
"""

import logging
import time

from django.db import DatabaseError, transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from control_plane import config
from control_plane.brokers.view import KeyUseSeen
from control_plane.outbox import queries as outbox
from daemon import pepper_folder
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.rules.credentials import pepper_fingerprint, secret_hmac
from tenants.actions import KIND_KEY, deliver_key, locked_key
from tenants.credentials import current_version, newest_version, peppers_for
from tenants.models import ApiKey

PEPPERS_LEVEL = 2
"""From this feature level on peppers are made: a broker of the release before does not find them, and takes no other
hash of a key."""
DAY_S = 86_400.0
RETIRED_AFTER_S = 3_600.0
"""Longer than a request that began with the pepper before, and a delivery to the brokers that was on its way."""
WAITS_LONG_S = 3_600.0
"""A new pepper that some broker does not have for longer is warned of."""
_ASKED_AT_ONCE = 500
"""Keys of one look at the database."""
_REHASHED_AT_ONCE = 500
"""Each is a transaction and a delivery; the others come with the next round."""
_log = logging.getLogger(__name__)


def rehash_shown(key: ApiKey, text: KeyText) -> None:
    """The key was shown and is right: hash it under the current pepper, if it has one before.

    Where that cannot be done the key is as good as before, and its next use tries again.
    """
    try:
        # One of the configuration alone may be unknown to brokers; this one each of them has.
        folder = config.current().brokers.pepper_folder
        version = 0 if folder is None else pepper_folder.current(folder) or 0
        pepper = peppers_for(version).get(version) if key.pepper_version < version else None
        if pepper is not None:
            _rehash(key.pk, version, secret_hmac(pepper, text.secret).hex())
    except (OSError, ValueError, DatabaseError) as error:
        _log.warning("a key keeps its older pepper", extra={"key": key.public_id, "error": str(error)})


def rehash_reported(seen: KeyUseSeen, version: int) -> int:
    """Brokers were shown keys and gave their hashes under that version; how many keys have another hash now.

    Only where every broker has the same pepper as this process: a hash of another one would be the end of the key.
    Raises `OSError`, `ValueError`.
    """
    hashes = seen.hashes
    if not hashes or seen.feature_level < PEPPERS_LEVEL:
        return 0
    own = peppers_for(version).get(version)
    if own is None or seen.peppers.get(version) != pepper_fingerprint(own):
        _log.warning(
            "keys keep their older pepper: brokers have another one of the number", extra={"version": version}
        )
        return 0
    rehashed = 0
    for row in _stored_before(sorted(hashes), version):
        rehashed += _rehash(row.pk, version, hashes[row.key_id])
    return rehashed


def _stored_before(key_ids: list[str], version: int) -> list[ApiKey]:
    """The first of those keys whose pepper is older. A busy key is named each time, also when it has this one."""
    found: list[ApiKey] = []
    for start in range(0, len(key_ids), _ASKED_AT_ONCE):
        named = key_ids[start : start + _ASKED_AT_ONCE]
        rows = ApiKey.objects.filter(key_id__in=named, pepper_version__lt=version, revoked_at=None)
        found += rows.order_by("key_id").only("pk", "key_id")[: _REHASHED_AT_ONCE - len(found)]
        if len(found) == _REHASHED_AT_ONCE:
            break
    return found


def _rehash(pk: int, version: int, secret_hash: str) -> bool:
    with transaction.atomic():
        row = locked_key(pk)
        if row.revoked_at is not None or row.pepper_version >= version:
            return False
        row.pepper_version, row.secret_hmac = version, secret_hash
        row.generation += 1
        row.save(update_fields=["pepper_version", "secret_hmac", "generation"])
        deliver_key(row)
    return True


# -- versions -----------------------------------------------------------------------------------------------


def make_next(seen: KeyUseSeen) -> tuple[int, bool]:
    """Make the next pepper, unless one waits for brokers; (version, whether it is new). `seen`: what the brokers have
    just said. Raises `OSError`, `ValueError` saying what to do.

    Its number is one that no pepper had, by the folder, the configuration, the keys and the brokers: a folder that was
    lost or taken back would else give a number to another content.
    """
    folder = config.current().brokers.pepper_folder
    if folder is None:
        raise ValueError("brokers.pepper_folder: not configured")
    if seen.feature_level < PEPPERS_LEVEL:
        raise ValueError(
            f"brokers.pepper_folder: peppers are made from feature level {PEPPERS_LEVEL} on, the cluster is at level"
            f" {seen.feature_level}; raise it with `penstock cluster features --raise {PEPPERS_LEVEL}`"
        )
    missing = sorted(version for version in _needed(seen) if not peppers_for(version))
    if missing:
        raise ValueError(
            f"{folder / str(missing[0])}: keys need this pepper and it is not here; copy the file from a broker or from"
            " a backup of the folder, or revoke the keys that have it. Until then no other is made"
        )
    newest = newest_version()
    if newest > current_version():
        return newest, False
    of_keys = ApiKey.objects.aggregate(newest=Max("pepper_version"))["newest"] or 0
    version = max(newest, of_keys, *seen.peppers_used, *seen.peppers) + 1
    return version, pepper_folder.make(folder, version)


def turn(seen: KeyUseSeen) -> None:
    """One round of the schedule. `seen`: what the brokers have just said. Raises `OSError`, `ValueError`."""
    brokers = config.current().brokers
    if brokers.pepper_folder is None or seen.feature_level < PEPPERS_LEVEL:
        return
    newest, current = newest_version(), current_version()
    if newest == current and brokers.pepper_days and age_s(newest) >= brokers.pepper_days * DAY_S:
        newest, made = make_next(seen)
        if made:
            _log.info("a pepper was made", extra={"version": newest})
    if newest > current:
        own = peppers_for(newest).get(newest)
        if own is not None and seen.peppers.get(newest) == pepper_fingerprint(own):
            pepper_folder.use(brokers.pepper_folder, newest)
            _log.info("a pepper is in use", extra={"version": newest})
        elif age_s(newest) > WAITS_LONG_S:
            _log.warning("a pepper waits: not every active broker has it", extra={"version": newest})
        return
    _retire(seen, current)


def _retire(seen: KeyUseSeen, current: int) -> None:
    brokers = config.current().brokers
    folder = brokers.pepper_folder
    if folder is None or current == brokers.pepper_version:
        return
    old = [version for version in pepper_folder.versions(folder) if version < current]
    used_for_s = time.time() - (folder / pepper_folder.CURRENT).stat().st_mtime
    # Without the current one not every broker has answered.
    if not old or used_for_s < RETIRED_AFTER_S or current not in seen.peppers or outbox.waits(KIND_KEY):
        return
    needed = _needed(seen)
    for version in old:
        if version not in needed:
            pepper_folder.remove(folder, version)
            _log.info("a pepper was removed", extra={"version": version})


def _needed(seen: KeyUseSeen) -> set[int]:
    """Versions that some valid key has, here or at a broker."""
    return {*seen.peppers_used, *_usable().values_list("pepper_version", flat=True).distinct()}


def _usable() -> QuerySet[ApiKey]:
    ends_later = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiKey.objects.filter(ends_later, revoked_at=None)


def age_s(version: int) -> float:
    """Seconds since that version was made. Raises `OSError`."""
    brokers = config.current().brokers
    if version == brokers.pepper_version:
        return time.time() - brokers.pepper_file.stat().st_mtime
    if brokers.pepper_folder is None:
        raise FileNotFoundError(f"pepper {version}")
    return time.time() - pepper_folder.made_at(brokers.pepper_folder, version)


def oldest_age_s() -> float:
    """Seconds since the oldest pepper was made that some key needs; 0 without keys. Raises `OSError`."""
    oldest = _usable().order_by("pepper_version").values_list("pepper_version", flat=True).first()
    return 0.0 if oldest is None else max(0.0, age_s(oldest))

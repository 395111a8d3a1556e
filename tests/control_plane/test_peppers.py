"""The pepper rotates: made, used once all brokers have it, keys hashed as they are used, and old ones removed.

No step may refuse a key: each test shows keys to a process that has read nothing yet, as one that has just begun, or
that runs elsewhere.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control_plane import config
from control_plane.access import actions as access
from control_plane.brokers.view import KeyUseSeen
from control_plane.commands import server
from control_plane.outbox import in_request
from control_plane.outbox.models import Delivery
from control_plane.reconciliation.tasks import note_key_use
from daemon import pepper_folder
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.rules.credentials import pepper_fingerprint, secret_hmac
from tenants import actions as tenants
from tenants import credentials, queries
from tenants.key_use import peppers
from tenants.models import ApiKey
from tests.control_plane.world import ACTOR, call, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A service with a folder of peppers and none in it. No worker and no broker runs here."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    now = config.current()
    brokers = msgspec.structs.replace(now.brokers, pepper_folder=tmp_path / "peppers", pepper_days=90)
    changed = msgspec.structs.replace(now, brokers=brokers)
    monkeypatch.setattr(config, "current", lambda: changed)
    return tmp_path / "peppers"


def new_process() -> None:
    """What this process knows of peppers is forgotten."""
    credentials._known.clear()


def key() -> tuple[ApiKey, KeyText]:
    tenant = make_tenant("acme")
    return access.create_key(ACTOR, tenant, name="app")


def seen(*, used: frozenset[int] = frozenset(), but: int = 0, level: int = 2) -> KeyUseSeen:
    """All brokers have every pepper that there is, `but` this one."""
    known = {}
    for version in range(1, credentials.newest_version() + 1):
        pepper = credentials.peppers_for(version).get(version)
        if pepper is not None and version != but:
            known[version] = pepper_fingerprint(pepper)
    return KeyUseSeen(ages_s={}, hashes={}, peppers=known, peppers_used=used, feature_level=level)


def with_hashes(hashes: dict[str, str], **others: int) -> KeyUseSeen:
    """All brokers say that, and give these hashes of keys by the id in their text."""
    return replace(seen(**others), hashes=hashes)  # type: ignore[arg-type]


def shown(text: KeyText) -> int:
    """The key is shown to a process that has just begun, and to one that knows all; its pepper after that."""
    new_process()
    for _ in range(2):
        assert call("GET", "/v1/topics", token=text.reveal()).status == 200
        assert queries.key_of(text) is not None
    return ApiKey.objects.get(key_id=text.key_id).pepper_version


def in_use() -> int:
    """Make the next pepper and put it to use; its version."""
    version, _ = peppers.make_next(seen())
    peppers.turn(seen())
    assert credentials.current_version() == version
    return version


def age(file: Path, days: float) -> None:
    at = time.time() - days * peppers.DAY_S
    os.utime(file, (at, at))


def test_a_pepper_is_made_when_the_newest_is_old_enough(folder: Path) -> None:
    peppers.turn(seen())
    assert pepper_folder.versions(folder) == []
    age(config.current().brokers.pepper_file, 91)
    try:
        peppers.turn(seen())
        assert pepper_folder.versions(folder) == [2]
        assert credentials.current_version() == 1, "brokers have not said that they have it"
        peppers.turn(seen())
        peppers.turn(seen())
        assert (pepper_folder.versions(folder), credentials.current_version()) == ([2], 2)
    finally:
        age(config.current().brokers.pepper_file, 0)


def test_no_days_are_no_schedule(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = config.current()
    off = msgspec.structs.replace(now, brokers=msgspec.structs.replace(now.brokers, pepper_days=0))
    monkeypatch.setattr(config, "current", lambda: off)
    age(now.brokers.pepper_file, 9_999)
    try:
        peppers.turn(seen())
        assert pepper_folder.versions(folder) == []
    finally:
        age(now.brokers.pepper_file, 0)


def test_a_pepper_that_one_broker_lacks_or_has_otherwise_is_not_used() -> None:
    _, text = key()
    version, _ = peppers.make_next(seen())
    peppers.turn(seen(but=version))
    assert credentials.current_version() == 1
    other = seen()
    other.peppers[version] = pepper_fingerprint(b"another pepper" * 3)
    peppers.turn(other)
    assert credentials.current_version() == 1 == shown(text)
    assert peppers.make_next(seen()) == (version, False), "one waits, so no other is made"


def test_a_process_that_was_killed_between_making_and_using_leaves_nothing_to_mend(folder: Path) -> None:
    """The file is there, and no process knows of it but by the folder."""
    _, text = key()
    pepper_folder.make(folder, 2)
    assert shown(text) == 1
    new_process()
    peppers.turn(seen())
    assert shown(text) == 2
    # Between the file and its name: the unnamed one counts for nothing.
    (folder / ".3.abc").write_text("ab" * 32 + "\n")
    assert in_use() == 3
    assert shown(text) == 3


def test_a_key_is_hashed_with_the_pepper_in_use_when_it_is_shown_and_brokers_get_it() -> None:
    row, text = key()
    generation = row.generation
    assert shown(text) == 1
    version = in_use()
    assert shown(text) == version
    row.refresh_from_db()
    own = credentials.peppers_for(version)[version]
    assert row.secret_hmac == secret_hmac(own, text.secret).hex()
    assert row.generation == generation + 1, "the second use changed nothing more"
    assert Delivery.objects.filter(kind="key", object_id=row.public_id, generation=row.generation).exists()


def test_a_wrong_secret_changes_no_hash() -> None:
    row, _ = key()
    _, other = access.create_key(ACTOR, row.tenant, name="other")
    in_use()
    forged = KeyText(env=other.env, key_id=row.key_id, secret=other.secret)
    assert call("GET", "/v1/topics", token=forged.reveal()).status == 401
    row.refresh_from_db()
    assert row.pepper_version == 1


def test_a_new_key_gets_the_pepper_in_use() -> None:
    version = in_use()
    row, text = key()
    assert row.pepper_version == version == shown(text)


def test_brokers_give_hashes_of_keys_that_were_shown_to_them() -> None:
    row, text = key()
    revoked, _ = access.create_key(ACTOR, row.tenant, name="revoked")
    tenants.revoke_key(ACTOR, revoked)
    version = in_use()
    given = secret_hmac(credentials.peppers_for(version)[version], text.secret).hex()
    told = {row.key_id: given, revoked.key_id: given, "unknown": given}
    assert peppers.rehash_reported(with_hashes(told), version) == 1
    assert peppers.rehash_reported(with_hashes(told), version) == 0
    revoked.refresh_from_db()
    assert revoked.pepper_version == 1
    assert shown(text) == version
    # What comes late of a pepper before does not go back.
    assert peppers.rehash_reported(with_hashes({row.key_id: "00" * 32}), 1) == 0


def test_an_old_pepper_is_removed_when_no_key_and_no_broker_needs_it(folder: Path) -> None:
    in_use()
    row, text = key()
    in_use()
    assert (row.pepper_version, credentials.current_version()) == (2, 3)

    def turned(use: KeyUseSeen) -> list[int]:
        peppers.turn(use)
        return pepper_folder.versions(folder)

    age(folder / "current", 1)
    Delivery.objects.all().delete()
    assert turned(seen()) == [2, 3], "a key has it"
    assert shown(text) == 3
    assert turned(seen()) == [2, 3], "brokers are to get the key"
    Delivery.objects.all().delete()
    assert turned(seen(used=frozenset({2, 3}))) == [2, 3], "a broker has the key from before"
    assert turned(seen(but=3)) == [2, 3], "not every broker has answered"
    age(folder / "current", 0)
    assert turned(seen()) == [2, 3], "a request may have begun before"
    age(folder / "current", 1)
    assert turned(seen()) == [3]
    assert shown(text) == 3


def test_the_age_is_of_the_oldest_pepper_that_a_key_needs(folder: Path) -> None:
    assert peppers.oldest_age_s() == 0
    in_use()
    age(folder / "2", 10)
    _, text = key()
    in_use()
    assert 9.9 < peppers.oldest_age_s() / peppers.DAY_S < 10.1
    shown(text)
    assert peppers.oldest_age_s() < 3_600


def test_a_folder_that_cannot_be_read_refuses_no_key(folder: Path) -> None:
    _, text = key()
    folder.mkdir()
    (folder / "current").write_text("not a version\n")
    assert shown(text) == 1


def test_an_operator_makes_a_pepper_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.commands._configure", lambda file: None)
    monkeypatch.setattr("control_plane.brokers.client.key_use", lambda within_s: seen(level=1))
    answer = CliRunner().invoke(server, ["rotate-pepper", "--config", "server.json"])
    assert answer.exit_code != 0
    assert "from feature level 2 on" in str(answer.exception), answer
    assert pepper_folder.versions(folder) == []
    monkeypatch.setattr("control_plane.brokers.client.key_use", lambda within_s: seen())
    for said in ("Pepper 2 is made.", "Pepper 2 was made before"):
        answer = CliRunner().invoke(server, ["rotate-pepper", "--config", "server.json"])
        assert (answer.exit_code, answer.output.startswith(said)) == (0, True), answer.output
    assert pepper_folder.versions(folder) == [2]


def test_below_the_feature_level_no_pepper_is_made_or_used(folder: Path) -> None:
    """A broker of the release before may come back: it would find none of them."""
    _, text = key()
    age(config.current().brokers.pepper_file, 91)
    try:
        peppers.turn(seen(level=1))
    finally:
        age(config.current().brokers.pepper_file, 0)
    assert pepper_folder.versions(folder) == []
    pepper_folder.make(folder, 2)
    peppers.turn(seen(level=1))
    assert (credentials.current_version(), shown(text)) == (1, 1)
    peppers.turn(seen())
    assert shown(text) == 2


def test_a_newer_pepper_of_the_configuration_alone_is_for_new_keys(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers have not said that they have it."""
    _, text = key()
    now = config.current()
    folder.mkdir()
    (folder / "1").write_text(now.brokers.pepper_file.read_text())
    (tmp_path / "second").write_text("cd" * 32 + "\n")
    brokers = msgspec.structs.replace(now.brokers, pepper_file=tmp_path / "second", pepper_version=2)
    monkeypatch.setattr(config, "current", lambda: msgspec.structs.replace(now, brokers=brokers))
    new_process()
    assert credentials.current_version() == 2
    assert shown(text) == 1
    new_process()


def test_a_number_is_given_once_whatever_became_of_the_folder(folder: Path) -> None:
    in_use()
    row, _ = key()
    tenants.revoke_key(ACTOR, row)
    before = seen()
    for file in folder.iterdir():
        file.unlink()
    new_process()
    # The keys' rows, what brokers need and what they have: each by itself.
    assert peppers.make_next(seen()) == (3, True)
    ApiKey.objects.update(pepper_version=1)
    pepper_folder.remove(folder, 3)
    new_process()
    assert peppers.make_next(before) == (3, True)


@pytest.mark.parametrize("by_brokers", [True, False])
def test_while_a_pepper_that_keys_need_is_missing_no_other_is_made(folder: Path, by_brokers: bool) -> None:
    in_use()
    if not by_brokers:
        key()
    whole = (folder / "2").read_text()
    (folder / "2").unlink()
    new_process()
    use = seen(used=frozenset({2} if by_brokers else ()))
    with pytest.raises(
        ValueError, match="peppers/2: keys need this pepper and it is not here; copy the file"
    ):
        peppers.make_next(use)
    assert pepper_folder.versions(folder) == []
    (folder / "2").write_text(whole)
    assert peppers.make_next(use) == (3, True)


def test_a_hash_of_brokers_that_have_another_pepper_of_the_number_is_not_stored() -> None:
    """The text of a key is kept nowhere: with a wrong hash it would be lost."""
    row, text = key()
    version = in_use()
    given = secret_hmac(b"another pepper" * 3, text.secret).hex()
    other = with_hashes({row.key_id: given})
    other.peppers[version] = pepper_fingerprint(b"another pepper" * 3)
    assert peppers.rehash_reported(other, version) == 0
    assert peppers.rehash_reported(with_hashes({row.key_id: given}, but=version), version) == 0
    assert peppers.rehash_reported(with_hashes({row.key_id: given}, level=1), version) == 0
    row.refresh_from_db()
    assert row.pepper_version == 1
    assert shown(text) == version


def test_many_busy_keys_that_are_hashed_already_keep_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peppers, "_ASKED_AT_ONCE", 2)
    monkeypatch.setattr(peppers, "_REHASHED_AT_ONCE", 3)
    row, _ = key()
    version = in_use()
    older = [access.create_key(ACTOR, row.tenant, name=f"app-{number}")[0] for number in range(7)]
    given = with_hashes({one.key_id: "ab" * 32 for one in [row, *older]})
    wait = sorted(one.key_id for one in older)[-5:]
    ApiKey.objects.filter(key_id__in=wait).update(pepper_version=1)
    ApiKey.objects.filter(pk=row.pk).update(pepper_version=version)
    assert [peppers.rehash_reported(given, version) for _ in range(3)] == [3, 2, 0]
    assert not ApiKey.objects.filter(pepper_version=1).exists()


def test_the_use_of_keys_is_noted_whatever_became_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    row, _ = key()
    asked: list[int] = []

    def key_use(within_s: float, version: int) -> KeyUseSeen:
        asked.append(version)
        return replace(with_hashes({row.key_id: "ab" * 32}), ages_s={row.key_id: 1.0})

    monkeypatch.setattr("control_plane.brokers.client.key_use", key_use)
    folder.mkdir()
    (folder / "current").write_text("not a version\n")
    note_key_use()
    row.refresh_from_db()
    assert row.last_used_at is not None
    assert (row.pepper_version, asked) == (1, [0])
    assert "the folder of peppers cannot be used" in caplog.text
    (folder / "current").unlink()
    (folder / "current").mkdir()
    note_key_use()
    assert asked == [0, 0]


def test_what_changes_one_key_does_not_lock_its_tenant() -> None:
    """Showing a key would wait for each change of the tenant, and rotating one locks the tenant first."""
    row, text = key()
    in_use()
    with CaptureQueriesContext(connection) as caught:
        assert shown(text) == 2
        tenants.touch_key(ACTOR, row)
        tenants.revoke_key(ACTOR, row)
    locks = [query["sql"] for query in caught if "FOR NO KEY UPDATE" in query["sql"]]
    of_keys = [sql for sql in locks if 'FROM "tenants_apikey"' in sql]
    assert len(of_keys) == 3
    for sql in of_keys:
        assert sql.endswith('FOR NO KEY UPDATE OF "tenants_apikey"'), sql
    assert not [sql for sql in locks if 'FROM "tenants_tenant"' in sql]

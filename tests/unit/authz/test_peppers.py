"""Peppers that come while a broker runs: found when a key needs them, and hashes of keys that were shown."""

import pytest

from data_plane.authz.access import Authenticator
from data_plane.authz.peppers import READ_AGAIN_MS, Peppers
from penstock.contract.errors import Unauthenticated
from penstock.rules.credentials import pepper_fingerprint, secret_hmac

from .setup import ACME, NOW_MS, PEER, PEPPERS, Tenants, key_number

ONE = key_number(1)
THREE = key_number(3)


class Folder:
    """Where peppers are kept."""

    def __init__(self) -> None:
        self.peppers: dict[int, bytes | None] = {}
        self.reads = 0
        self.there = True

    def read(self) -> dict[int, bytes | None] | None:
        self.reads += 1
        return dict(self.peppers) if self.there else None


def broker(tenants: Tenants, folder: Folder) -> Authenticator:
    return Authenticator(tenants.image, {1: PEPPERS[1]}, None, folder.read)


def enter(authenticator: Authenticator, at_ms: float, number: int = 3) -> None:
    authenticator.authenticate(
        f"Bearer {key_number(number).reveal()}", peer=PEER, now_ms=NOW_MS, monotonic_ms=at_ms
    )


def test_a_pepper_that_comes_while_the_broker_runs_is_found_by_the_first_key_that_needs_it() -> None:
    tenants, folder = Tenants(), Folder()
    door = broker(tenants, folder)
    folder.peppers[2] = PEPPERS[2]
    tenants.add_key(3, ACME, pepper_version=2)
    enter(door, 0)
    enter(door, READ_AGAIN_MS)
    assert folder.reads == 1


def test_a_key_of_a_pepper_that_is_nowhere_costs_one_read_a_second() -> None:
    tenants, folder = Tenants(), Folder()
    door = broker(tenants, folder)
    tenants.add_key(3, ACME, pepper_version=2)
    for at_ms in (0, 1, READ_AGAIN_MS - 1):
        with pytest.raises(Unauthenticated):
            enter(door, at_ms)
    assert folder.reads == 1
    folder.peppers[2] = PEPPERS[2]
    enter(door, READ_AGAIN_MS)


def test_an_unknown_key_id_reads_nothing() -> None:
    folder = Folder()
    door = broker(Tenants(), folder)
    with pytest.raises(Unauthenticated):
        enter(door, 0, number=9)
    assert folder.reads == 0


def test_a_key_that_is_shown_gives_its_hash_under_the_newest_pepper_and_no_other() -> None:
    tenants, folder = Tenants(), Folder()
    door = broker(tenants, folder)
    enter(door, 0, number=1)
    assert door.peppers.hash_of(ONE.key_id, 1) == door.peppers.hash_of(ONE.key_id, 2) == b""
    folder.peppers[2] = PEPPERS[2]
    door.peppers.read_again(0)
    enter(door, 1, number=1)
    assert door.peppers.hash_of(ONE.key_id, 2) == secret_hmac(PEPPERS[2], ONE.secret)
    assert door.peppers.hash_of(ONE.key_id, 3) == door.peppers.hash_of(THREE.key_id, 2) == b""
    # Once it is stored under the newest, there is nothing to give.
    tenants.add_key(1, ACME, pepper_version=2)
    enter(door, 2, number=1)
    assert door.peppers.hash_of(ONE.key_id, 2) == b""


def test_a_wrong_secret_gives_no_hash() -> None:
    tenants, folder = Tenants(), Folder()
    door = broker(tenants, folder)
    folder.peppers[2] = PEPPERS[2]
    door.peppers.read_again(0)
    tenants.change_key(1, secret_hmac="00" * 32)
    with pytest.raises(Unauthenticated):
        enter(door, 0, number=1)
    assert door.peppers.hash_of(ONE.key_id, 2) == b""


def test_an_open_stream_goes_on_when_its_key_gets_another_pepper() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    tenants.add_key(1, ACME, pepper_version=2)
    assert tenants.authenticator.still_valid(principal, NOW_MS)
    assert tenants.enter(ONE).number == principal.number


def test_what_was_removed_is_known_no_more_and_the_configured_one_stays() -> None:
    folder = Folder()
    peppers = Peppers({1: PEPPERS[1]}, folder.read)
    folder.peppers = {1: b"z" * 32, 2: PEPPERS[2]}
    peppers.read_again(0)
    assert peppers.known() == {version: pepper_fingerprint(PEPPERS[version]) for version in (1, 2)}
    folder.peppers = {}
    peppers.read_again(READ_AGAIN_MS)
    assert list(peppers.known()) == [1]


def test_what_cannot_be_read_now_stays_known() -> None:
    folder = Folder()
    peppers = Peppers({1: PEPPERS[1]}, folder.read)
    folder.peppers = {2: PEPPERS[2], 3: b"z" * 32, 4: None}
    peppers.read_again(0)
    assert list(peppers.known()) == [1, 2, 3]
    folder.there = False
    peppers.read_again(READ_AGAIN_MS)
    assert list(peppers.known()) == [1, 2, 3]
    folder.there, folder.peppers = True, {2: None}
    peppers.read_again(2 * READ_AGAIN_MS)
    assert peppers.known() == {version: pepper_fingerprint(PEPPERS[version]) for version in (1, 2)}


def test_the_hash_of_a_key_that_has_it_or_is_gone_is_given_no_more() -> None:
    """A busy key whose stream stays open is not shown again."""
    tenants, folder = Tenants(), Folder()
    door = broker(tenants, folder)
    folder.peppers[2] = PEPPERS[2]
    door.peppers.read_again(0)
    for number in (1, 2, 3, 4):
        tenants.add_key(number, ACME, pepper_version=1)
        enter(door, 1, number=number)
    ids = {number: key_number(number).key_id for number in (1, 2, 3, 4)}
    tenants.add_key(1, ACME, pepper_version=2)
    tenants.change_key(2, revoked=True)
    keys = {key_id: record for key_id, record in tenants.image.keys.items() if key_id != ids[3]}
    door.peppers.forget_stored(keys)
    assert [number for number, key_id in ids.items() if door.peppers.hash_of(key_id, 2)] == [4]

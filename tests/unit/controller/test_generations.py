"""Desired state by generation: late changes are ignored, repeated ones restore, limits and bindings are checked."""

from typing import Any

import pytest

from data_plane.controller.tenants import put_key, put_tenant, revoke_key
from data_plane.controller.topics import NewTopic, create_topic, delete_topic, update_topic
from data_plane.metadata import model
from data_plane.metadata.features import FEATURES_KEY, LEASES, FeaturesRecord
from data_plane.metadata.model import Binding, TenantQuotas
from data_plane.metadata.port import Change, Compare
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicId
from penstock.contract.limits import KEY_BINDINGS_MAX
from penstock.contract.topic_settings import Durability, TopicSettings

from .setup import ACME, Store, record

GLOBEX = TenantId("globex")

NEW, OTHER = TopicId(b"n" * 16), TopicId(b"o" * 16)
SETTINGS, WIDER = TopicSettings(), TopicSettings(retention_ms=3_600_000)
REPLICAS = (1, 2, 3)
KEY = "A" * 12


def fresh_store() -> Store:
    """With a tenant."""
    made = Store()
    apply(made, put_tenant(made.image, ACME))
    return made


@pytest.fixture
def store() -> Store:
    return fresh_store()


def apply(store: Store, change: Any) -> Any:
    compares: tuple[Compare, ...] = change.compares
    changes: tuple[Change, ...] = change.changes
    if changes:
        assert not change.ignored, "what changes something is not ignored"
        assert store.txn(compares, changes)
    return change


def create(
    store: Store, generation: int, topic_id: TopicId = NEW, name: str = "t", partitions: int = 1
) -> NewTopic:
    places = [REPLICAS] * partitions
    made = create_topic(store.image, topic_id, ACME, name, SETTINGS, places, generation=generation)
    return apply(store, made)  # type: ignore[no-any-return]


def update(store: Store, generation: int, settings: TopicSettings = WIDER, added: int = 0) -> NewTopic:
    made = update_topic(store.image, NEW, ACME, settings, [REPLICAS] * added, generation=generation)
    return apply(store, made)  # type: ignore[no-any-return]


# -- tenants --------------------------------------------------------------------------------------------


def test_a_tenant_follows_the_highest_generation() -> None:
    store, quotas = Store(), TenantQuotas(produce_bytes_per_s=10, partitions_max=3)
    apply(store, put_tenant(store.image, ACME, generation=4, quotas=quotas))
    late = put_tenant(store.image, ACME, generation=3, quotas=TenantQuotas(), suspended=True)
    assert (late.ignored, late.changes) == (True, ())
    again = put_tenant(store.image, ACME, generation=4, quotas=quotas)
    assert (again.ignored, again.changes) == (False, ())
    apply(store, put_tenant(store.image, ACME, generation=5, quotas=TenantQuotas(), suspended=True))
    known = store.image.tenants[ACME]
    assert (known.generation, known.quotas, known.suspended) == (5, TenantQuotas(), True)


def test_a_consume_rate_is_kept_from_the_feature_level_of_leases_on() -> None:
    store, wanted = Store(), TenantQuotas(produce_bytes_per_s=10, consume_bytes_per_s=30)
    apply(store, put_tenant(store.image, ACME, generation=1, quotas=wanted))
    assert store.image.tenants[ACME].quotas == TenantQuotas(produce_bytes_per_s=10)
    assert not put_tenant(store.image, ACME, generation=1, quotas=wanted).changes
    store.put(FEATURES_KEY, FeaturesRecord(level=LEASES).encode())
    apply(store, put_tenant(store.image, ACME, generation=1, quotas=wanted))
    assert store.image.tenants[ACME].quotas == wanted


def test_a_repeated_generation_restores_what_was_changed_by_hand() -> None:
    store, quotas = Store(), TenantQuotas(partitions_max=3)
    apply(store, put_tenant(store.image, ACME, generation=4, quotas=quotas))
    apply(store, put_tenant(store.image, ACME, quotas=TenantQuotas(partitions_max=9)))
    assert store.image.tenants[ACME] == model.TenantRecord(
        tenant=ACME, generation=4, quotas=TenantQuotas(partitions_max=9)
    )
    apply(store, put_tenant(store.image, ACME, generation=4, quotas=quotas))
    assert store.image.tenants[ACME].quotas == quotas


def test_making_a_known_tenant_known_changes_nothing_of_it() -> None:
    store = Store()
    apply(
        store,
        put_tenant(store.image, ACME, generation=4, quotas=TenantQuotas(partitions_max=3), suspended=True),
    )
    assert put_tenant(store.image, ACME).changes == ()


def test_the_services_own_tenant_is_never_suspended() -> None:
    with pytest.raises(InvalidRequest, match="cannot be suspended"):
        put_tenant(Store().image, SYSTEM_TENANT, generation=1, suspended=True)


# -- topics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic_id", [b"", NEW[:-1], NEW + b"n"])
def test_a_topic_id_of_another_length_is_refused(store: Store, topic_id: bytes) -> None:
    with pytest.raises(InvalidRequest, match=f"of {len(topic_id)} bytes, 16 required"):
        create(store, 1, TopicId(topic_id))
    with pytest.raises(InvalidRequest, match=f"of {len(topic_id)} bytes, 16 required"):
        delete_topic(store.image, ACME, "t", topic_id=TopicId(topic_id))


def test_a_topic_is_made_for_a_tenant_that_exists_and_for_no_other(store: Store) -> None:
    with pytest.raises(NotFound, match="tenant 'globex' does not exist"):
        create_topic(store.image, NEW, GLOBEX, "t", SETTINGS, [REPLICAS])
    apply(store, create_topic(store.image, NEW, SYSTEM_TENANT, "__usage", SETTINGS, [REPLICAS]))
    assert store.image.topics[NEW].tenant == SYSTEM_TENANT


def test_creating_with_the_same_id_and_name_is_a_repetition(store: Store) -> None:
    first = create(store, 2)
    again, late = create(store, 2), create(store, 1)
    assert (again.changes, again.ignored, again.record) == ((), False, first.record)
    assert (late.changes, late.ignored) == ((), True)
    with pytest.raises(AlreadyExists, match="was used before"):
        create(store, 3, name="another")
    with pytest.raises(AlreadyExists, match="'t' exists"):
        create(store, 3, topic_id=OTHER)


def test_a_creation_of_a_higher_generation_brings_the_topic_to_its_state(store: Store) -> None:
    create(store, 1)
    made = create_topic(store.image, NEW, ACME, "t", WIDER, [REPLICAS] * 3, generation=2)
    apply(store, made)
    topic = store.image.topics[NEW]
    assert (topic.settings, topic.partitions, topic.generation) == (WIDER, 3, 2)
    with pytest.raises(LimitExceeded, match="1 partitions, 3 to"):
        create_topic(store.image, NEW, ACME, "t", WIDER, [REPLICAS], generation=3)


def test_an_update_replaces_settings_and_adds_partitions_once(store: Store) -> None:
    create(store, 1)
    for _ in range(2):
        update(store, 2, added=2)
    topic = store.image.topics[NEW]
    assert (topic.settings, topic.partitions, topic.generation) == (WIDER, 3, 2)
    assert [p.partition for p in store.image.partitions_of(NEW)] == [0, 1, 2]
    assert update(store, 1, SETTINGS).ignored
    update(store, 0, SETTINGS, added=1)
    topic = store.image.topics[NEW]
    assert (topic.settings, topic.partitions, topic.generation) == (SETTINGS, 4, 2)


def test_partitions_are_added_to_their_cells_and_an_election_meanwhile_is_seen(store: Store) -> None:
    create(store, 1, partitions=99)
    grown = update_topic(store.image, NEW, ACME, SETTINGS, [REPLICAS] * 3, generation=2)
    block = model.block_key(NEW, 0)
    store.put(block, store.items[block].value)
    assert not store.txn(grown.compares, grown.changes)
    update(store, 2, SETTINGS, added=3)
    assert [len(store.image.blocks[NEW][number].partitions) for number in (0, 1)] == [100, 2]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda s: update(s, 2, TopicSettings(durability=Durability.REPLICATED)),
            InvalidRequest,
            "durability is fsync",
        ),
        (lambda s: update(s, 2, added=limits.PARTITIONS_PER_TOPIC_MAX), LimitExceeded, "10001 partitions"),
        (lambda s: update_topic(s.image, NEW, TenantId("x"), WIDER, ()), NotFound, "does not exist"),
        (lambda s: update_topic(s.image, NEW, ACME, WIDER, [(1, 2)]), InvalidRequest, "t-1: 2 brokers"),
        (lambda s: update_topic(s.image, OTHER, ACME, WIDER, ()), NotFound, "does not exist"),
    ],
)
def test_a_wrong_update_is_refused_by_name(
    store: Store, change: Any, error: type[Exception], text: str
) -> None:
    create(store, 1)
    with pytest.raises(error, match=text):
        change(store)


def test_a_lower_demand_clears_whoever_was_electable_because_of_the_higher_one(store: Store) -> None:
    """The watermark moves on without them, so they must never be elected (RL43)."""
    create(store, 1, partitions=3)
    block = model.block_key(NEW, 0)
    store.put(
        block,
        model.encode_block(
            {
                0: record((1,), eligible=(2,), last_known=(3,)),
                1: record((), partition=1, leader=-1, eligible=(1, 2)),
                2: record(partition=2),
            }
        ),
    )
    eased = TopicSettings(min_insync_replicas=1)
    grown = update_topic(store.image, NEW, ACME, eased, [REPLICAS], generation=2)
    apply(store, grown)
    found = store.image.partitions_of(NEW)
    assert [(p.in_sync, p.eligible, p.last_known, p.partition_epoch) for p in found] == [
        ((1,), (), (), 8),
        ((), (1, 2), (), 7),
        ((1, 2, 3), (), (), 7),
        ((1, 2, 3), (), (), 1),
    ]


def test_what_was_decided_under_a_higher_demand_fails_once_it_is_lower(store: Store) -> None:
    create(store, 1)
    before = store.mod_revision(model.block_key(NEW, 0))
    update(store, 2, TopicSettings(min_insync_replicas=1))
    after = store.mod_revision(model.block_key(NEW, 0))
    assert after > before, "every block is written, though nothing in it changed"
    update(store, 3, TopicSettings(min_insync_replicas=3))
    assert store.mod_revision(model.block_key(NEW, 0)) == after


def test_nothing_late_brings_a_deleted_topic_back(store: Store) -> None:
    create(store, 1)
    apply(store, delete_topic(store.image, ACME, "t", generation=3, topic_id=NEW))
    assert store.image.buried[NEW] == model.Tombstone(name="t", tenant=ACME, partitions=1, generation=3)
    assert create(store, 2).ignored
    assert update(store, 2).ignored
    assert delete_topic(store.image, ACME, "t", generation=2, topic_id=NEW).ignored
    again = delete_topic(store.image, ACME, "t", generation=3, topic_id=NEW)
    assert (again.changes, again.ignored) == ((), False)
    with pytest.raises(AlreadyExists, match="a new topic needs a new id"):
        create(store, 4)
    create(store, 1, topic_id=OTHER)
    apply(store, delete_topic(store.image, ACME, "t", generation=4, topic_id=NEW))
    assert OTHER in store.image.topics, "a later topic of the same name stays"


def test_a_late_deletion_is_ignored_and_one_that_comes_first_holds(store: Store) -> None:
    create(store, 5)
    assert delete_topic(store.image, ACME, "t", generation=4).ignored
    apply(store, delete_topic(store.image, ACME, "u", generation=2, topic_id=OTHER))
    assert create(store, 1, topic_id=OTHER, name="u").ignored
    with pytest.raises(NotFound):
        delete_topic(store.image, ACME, "u", topic_id=TopicId(b"z" * 16))
    with pytest.raises(NotFound):
        delete_topic(store.image, TenantId("stranger"), "u", generation=9, topic_id=OTHER)


def test_of_two_topics_at_once_only_what_the_limit_leaves_room_for_is_made(store: Store) -> None:
    apply(store, put_tenant(store.image, ACME, generation=1, quotas=TenantQuotas(partitions_max=3)))
    one = create_topic(store.image, NEW, ACME, "t", SETTINGS, [REPLICAS] * 2)
    two = create_topic(store.image, OTHER, ACME, "u", SETTINGS, [REPLICAS] * 2)
    assert store.txn(one.compares, one.changes)
    assert not store.txn(two.compares, two.changes)
    with pytest.raises(LimitExceeded, match="partitions_max of the tenant is 3, 2 are used and 2 more"):
        create(store, 1, topic_id=OTHER, name="u", partitions=2)
    with pytest.raises(LimitExceeded, match="2 are used and 2 more"):
        update(store, 2, added=2)
    update(store, 2, added=1)
    apply(store, delete_topic(store.image, ACME, "t"))
    create(store, 1, topic_id=OTHER, name="u", partitions=3)


def test_a_limit_that_comes_while_a_topic_is_made_counts(store: Store) -> None:
    made = create_topic(store.image, NEW, ACME, "t", SETTINGS, [REPLICAS] * 2)
    apply(store, put_tenant(store.image, ACME, generation=1, quotas=TenantQuotas(partitions_max=1)))
    assert not store.txn(made.compares, made.changes)


# -- keys -----------------------------------------------------------------------------------------------


def key(store: Store, generation: int = 0, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "tenant": ACME, "name": "ci", "pepper_version": 1, "secret_hmac": "ab" * 32, "scram": {"salt": "1"},
        "generation": generation, **changes,
    }  # fmt: skip
    counter = store.items.get(model.NEXT_PRINCIPAL_KEY)
    return apply(store, put_key(store.image, counter, key_id=KEY, **values))


def test_a_changed_key_keeps_its_number_and_verifiers(store: Store) -> None:
    number = key(store, 1).record.principal
    bindings = (Binding(topic_prefix="a-", operations=("produce",)),)
    key(store, 2, name="cd", expires_at_ms=9, bindings=bindings, scram={"salt": "2"})
    held = store.image.keys[KEY]
    assert (held.principal, held.name, held.expires_at_ms, held.bindings, held.generation) == (
        number, "cd", 9, bindings, 2,
    )  # fmt: skip
    assert held.scram == {"salt": "1"}
    assert key(store, 1).ignored
    assert store.image.keys[KEY] == held


def test_a_key_gets_a_newer_pepper_and_an_older_hash_on_its_way_changes_nothing(store: Store) -> None:
    number = key(store, 1).record.principal
    newer = {"pepper_version": 2, "secret_hmac": "cd" * 32}
    key(store, 2, **newer)
    kept = store.image.keys[KEY]
    assert (kept.principal, kept.pepper_version, kept.secret_hmac) == (number, 2, "cd" * 32)
    assert kept.scram == {"salt": "1"}
    assert key(store, 1).ignored and store.image.keys[KEY] == kept
    assert key(store, 2, **newer).changes == ()


@pytest.mark.parametrize(
    "other",
    [
        {"secret_hmac": "cd" * 32},
        {"pepper_version": 1, "secret_hmac": "cd" * 32, "scram": {"salt": "2"}},
        {"pepper_version": 1, "secret_hmac": "cd" * 32, "scram": {}},
        {"tenant": GLOBEX, "pepper_version": 1, "secret_hmac": "cd" * 32},
        {"tenant": GLOBEX, "pepper_version": 3, "secret_hmac": "cd" * 32},
    ],
)
def test_another_secret_is_not_taken_for_another_pepper(store: Store, other: dict[str, Any]) -> None:
    key(store, 1, pepper_version=2)
    apply(store, put_tenant(store.image, GLOBEX))
    with pytest.raises(AlreadyExists):
        key(store, 2, **{"pepper_version": 2, **other})
    assert store.image.keys[KEY].secret_hmac == "ab" * 32


def test_a_key_of_a_database_that_was_taken_back_changes_and_keeps_its_newer_hash(store: Store) -> None:
    number = key(store, 1).record.principal
    key(store, 2, pepper_version=2, secret_hmac="cd" * 32, expires_at_ms=5)
    bindings = (Binding(topic_prefix="a-", operations=("produce",)),)
    changed = key(store, 3, name="cd", expires_at_ms=9, bindings=bindings)
    assert not changed.ignored
    kept = store.image.keys[KEY]
    assert (kept.principal, kept.pepper_version, kept.secret_hmac) == (number, 2, "cd" * 32)
    assert (kept.name, kept.expires_at_ms, kept.bindings, kept.generation) == ("cd", 9, bindings, 3)
    assert key(store, 2, name="late").ignored
    # It is shown, and hashed again under the newest.
    key(store, 4, pepper_version=3, secret_hmac="ef" * 32)
    assert store.image.keys[KEY].pepper_version == 3


def test_a_revocation_is_for_ever_and_a_late_one_is_ignored(store: Store) -> None:
    key(store, 2)
    assert revoke_key(store.image, KEY, generation=1).ignored
    apply(store, revoke_key(store.image, KEY, generation=3))
    late = key(store, 4, name="again")
    assert late.ignored and store.image.keys[KEY].revoked
    assert revoke_key(store.image, KEY, generation=3).changes == ()


def test_a_key_that_was_revoked_before_it_came_is_refused_when_it_comes(store: Store) -> None:
    apply(store, revoke_key(store.image, KEY, generation=2))
    assert revoke_key(store.image, KEY, generation=2).changes == ()
    refused = key(store, 1)
    assert refused.ignored and KEY not in store.image.keys


def test_a_key_and_its_revocation_at_once_do_not_both_happen(store: Store) -> None:
    made = put_key(
        store.image, None, key_id=KEY, tenant=ACME, name="", pepper_version=1, secret_hmac="ab" * 32, scram={}
    )
    apply(store, revoke_key(store.image, KEY, generation=2))
    assert not store.txn(made.compares, made.changes)


@pytest.mark.parametrize(
    ("bindings", "error", "text"),
    [
        ([Binding(topic_prefix="a/b")], InvalidRequest, "topic_prefix: 'a/b'"),
        ([Binding(topic_prefix="x" * 250)], InvalidRequest, "topic_prefix"),
        ([Binding(topic_prefix="a", operations=("own",))], InvalidRequest, "operations: 'own'"),
        ([Binding(topic_prefix="a")] * (KEY_BINDINGS_MAX + 1), LimitExceeded, "101 bindings"),
    ],
)
def test_wrong_bindings_are_refused_by_name(
    store: Store, bindings: list[Binding], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        key(store, bindings=bindings)

"""Who gets in, how long, and what he can name."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from data_plane.authz.access import (
    IMAGE_AGE_MS_MAX,
    Authenticator,
    KeyRights,
    Operation,
    Principal,
)
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import TopicRecord
from penstock.contract import limits
from penstock.contract.api_keys import ApiKey
from penstock.contract.errors import BrokerUnavailable, Forbidden, NotFound, Throttled, Unauthenticated
from penstock.contract.ids import TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access import scope_grants

from .setup import ACME, GLOBEX, NOW_MS, PEER, Tenants, key_number

ONE, TWO, UNKNOWN = key_number(1), key_number(2), key_number(99)


def with_wrong_secret(key: ApiKey) -> ApiKey:
    return ApiKey(env=key.env, key_id=key.key_id, secret="0" * 43)


def test_a_key_gives_its_tenant_and_principal_number() -> None:
    principal = Tenants().enter(ONE)
    assert (principal.tenant, principal.number, principal.key_id) == (ACME, 1, ONE.key_id)


def test_a_principal_remembers_the_revision_and_the_expiry_of_its_key() -> None:
    tenants = Tenants()
    tenants.change_key(1, expires_at_ms=NOW_MS + 5)
    principal = tenants.enter(ONE)
    assert principal.expires_at_ms == NOW_MS + 5
    assert principal.key_revision == tenants.image.revision


def test_the_scheme_is_read_in_any_case() -> None:
    assert Tenants().enter(f"bearer  {TWO.reveal()} ").tenant == GLOBEX


def test_an_unknown_id_and_a_wrong_secret_read_the_same() -> None:
    tenants = Tenants()
    texts = []
    for key in (UNKNOWN, with_wrong_secret(ONE)):
        with pytest.raises(Unauthenticated) as raised:
            tenants.enter(key)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("text", ["Bearer", "Bearer nonsense", "Basic dXNlcjpwYXNz", ONE.reveal()])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(Unauthenticated, match="malformed"):
        Tenants().enter(text)


def test_a_key_that_is_missing_is_called_so() -> None:
    for text in ("", " "):
        with pytest.raises(Unauthenticated, match=r"^no API key was sent$"):
            Tenants().enter(text)


def test_no_refusal_shows_a_secret() -> None:
    tenants = Tenants()
    for key in (UNKNOWN, with_wrong_secret(ONE)):
        with pytest.raises(Unauthenticated) as raised:
            tenants.enter(key)
        assert key.secret not in str(raised.value)
    with pytest.raises(Unauthenticated) as raised:
        tenants.enter(f"Bearer {ONE.reveal()}x")
    assert ONE.secret not in str(raised.value)


def test_a_revoked_key_is_refused_and_only_its_holder_is_told_so() -> None:
    tenants = Tenants()
    tenants.change_key(1, revoked=True)
    with pytest.raises(Unauthenticated, match="was revoked"):
        tenants.enter(ONE)
    with pytest.raises(Unauthenticated, match="is not valid"):
        tenants.enter(with_wrong_secret(ONE))


def test_a_key_expires_to_the_millisecond() -> None:
    tenants = Tenants()
    tenants.change_key(1, expires_at_ms=NOW_MS)
    principal = tenants.enter(ONE, now_ms=NOW_MS - 1)
    assert tenants.authenticator.still_valid(principal, NOW_MS - 1)
    assert not tenants.authenticator.still_valid(principal, NOW_MS)
    with pytest.raises(Unauthenticated, match="has expired"):
        tenants.enter(ONE, now_ms=NOW_MS)


def test_peppers_rotate_without_new_keys() -> None:
    tenants = Tenants()
    tenants.add_key(3, ACME, pepper_version=2)
    assert tenants.enter(key_number(3)).number == 3
    assert tenants.enter(ONE).number == 1


def test_a_key_of_a_pepper_this_broker_lacks_is_refused() -> None:
    tenants = Tenants()
    tenants.change_key(1, pepper_version=9)
    with pytest.raises(Unauthenticated, match="is not valid"):
        tenants.enter(ONE)


def test_a_short_pepper_stops_the_broker_before_it_serves() -> None:
    with pytest.raises(ValueError, match="pepper"):
        Authenticator(ClusterImage(), {1: b"short"})


# -- open streams ---------------------------------------------------------------------------------------


def test_an_open_stream_ends_with_its_key() -> None:
    tenants = Tenants()
    ends: tuple[Callable[[], object], ...] = (
        lambda: tenants.change_key(1, revoked=True),
        lambda: tenants.change_key(1, tenant=GLOBEX),
        lambda: tenants.put(model.credential_key(ONE.key_id), None),
    )
    for end in ends:
        tenants.add_key(1, ACME)
        principal = tenants.enter(ONE)
        assert tenants.authenticator.still_valid(principal, NOW_MS)
        end()
        assert not tenants.authenticator.still_valid(principal, NOW_MS)


def test_a_key_that_was_only_renamed_or_bound_anew_goes_on_and_its_new_expiry_counts() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    tenants.change_key(1, name="another", bindings=(model.Binding(topic_prefix="ord"),))
    assert tenants.authenticator.still_valid(principal, NOW_MS)
    tenants.change_key(1, expires_at_ms=NOW_MS + 1)
    assert tenants.authenticator.expires_at_ms(principal) == NOW_MS + 1
    assert tenants.authenticator.still_valid(principal, NOW_MS)
    assert not tenants.authenticator.still_valid(principal, NOW_MS + 1)


def test_a_suspended_tenants_keys_are_refused_and_others_are_not() -> None:
    tenants = Tenants()
    one, two = tenants.enter(ONE), tenants.enter(TWO)
    for suspended in (True, False):
        record = model.TenantRecord(tenant=ACME, suspended=suspended)
        tenants.put(model.tenant_key(ACME), record.encode())
        assert tenants.authenticator.still_valid(one, NOW_MS) is not suspended
        assert tenants.authenticator.still_valid(two, NOW_MS)
        if suspended:
            with pytest.raises(Forbidden, match="tenant acme is suspended"):
                tenants.enter(ONE)
    assert (tenants.enter(ONE).number, tenants.enter(TWO).number) == (one.number, two.number)


def test_other_keys_do_not_end_a_stream() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    tenants.change_key(2, revoked=True)
    assert tenants.authenticator.still_valid(principal, NOW_MS)


def test_a_broker_without_the_store_lets_nobody_new_in() -> None:
    tenants = Tenants()
    credentials = f"Bearer {ONE.reveal()}"
    for age, lets_in in ((IMAGE_AGE_MS_MAX, True), (IMAGE_AGE_MS_MAX + 1, False)):
        if lets_in:
            principal = tenants.authenticator.authenticate(
                credentials, peer=PEER, now_ms=NOW_MS, monotonic_ms=0, image_age_ms=age
            )
            assert principal.key_id == ONE.key_id
        else:
            with pytest.raises(BrokerUnavailable):
                tenants.authenticator.authenticate(
                    credentials, peer=PEER, now_ms=NOW_MS, monotonic_ms=0, image_age_ms=age
                )


# -- failures -------------------------------------------------------------------------------------------


def fail(tenants: Tenants, key: ApiKey | str, peer: str, monotonic_ms: float = 0) -> type[Exception]:
    with pytest.raises((Unauthenticated, Throttled)) as raised:
        tenants.enter(key, peer=peer, monotonic_ms=monotonic_ms)
    return raised.type


def test_failures_of_one_address_are_limited_whatever_key_they_name() -> None:
    tenants = Tenants()
    most = limits.FAILED_AUTH_PER_MINUTE_MAX
    outcomes = [fail(tenants, key_number(100 + n % 100), PEER) for n in range(most + 1)]
    assert outcomes == [Unauthenticated] * most + [Throttled]
    assert fail(tenants, UNKNOWN, "10.0.0.2") is Unauthenticated


def test_failures_on_one_key_are_limited_from_whatever_address() -> None:
    tenants = Tenants()
    most = limits.FAILED_AUTH_PER_MINUTE_MAX
    wrong = with_wrong_secret(ONE)
    outcomes = [fail(tenants, wrong, f"10.0.1.{n}") for n in range(most + 1)]
    assert outcomes == [Unauthenticated] * most + [Throttled]
    assert fail(tenants, with_wrong_secret(TWO), "10.0.2.1") is Unauthenticated


def test_malformed_keys_are_limited_too() -> None:
    tenants = Tenants()
    outcomes = [fail(tenants, "Bearer x", PEER) for _ in range(limits.FAILED_AUTH_PER_MINUTE_MAX + 1)]
    assert outcomes[-1] is Throttled


def test_failing_in_a_tenants_name_does_not_lock_it_out() -> None:
    tenants = Tenants()
    for _ in range(500):
        fail(tenants, with_wrong_secret(ONE), PEER)
    assert tenants.enter(ONE, peer=PEER).tenant == ACME


def test_the_limit_passes_with_time() -> None:
    tenants = Tenants()
    for _ in range(limits.FAILED_AUTH_PER_MINUTE_MAX):
        fail(tenants, UNKNOWN, PEER)
    assert fail(tenants, UNKNOWN, PEER, 999) is Throttled
    assert fail(tenants, UNKNOWN, PEER, 60_000) is Unauthenticated


# -- names ----------------------------------------------------------------------------------------------


def test_a_name_is_looked_up_within_the_own_tenant() -> None:
    tenants = Tenants()
    for key, tenant in ((ONE, ACME), (TWO, GLOBEX)):
        principal = tenants.enter(key)
        assert tenants.authenticator.topic(principal, Operation.PRODUCE, "orders").tenant == tenant
        assert [topic.tenant for topic in tenants.authenticator.topics(principal)] == [tenant]


def test_another_tenants_topic_is_not_told_from_a_missing_one() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    foreign, missing = TopicId(b"\2" * 16), TopicId(b"\7" * 16)
    texts = []
    for topic_id in (foreign, missing):
        with pytest.raises(NotFound) as raised:
            tenants.authenticator.topic_by_id(principal, Operation.CONSUME, topic_id)
        texts.append(str(raised.value).replace(topic_id.hex(), "ID"))
    with pytest.raises(NotFound) as raised:
        tenants.authenticator.authorize(principal, Operation.DESCRIBE, tenants.image.topics[foreign])
    texts.append(str(raised.value).replace(foreign.hex(), "ID"))
    assert texts == ["topic id ID does not exist"] * 3
    assert tenants.authenticator.topic_by_id(principal, Operation.CONSUME, TopicId(b"\1" * 16)).tenant == ACME


def test_a_name_cannot_reach_into_another_tenant() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    for name in ("globex/orders", "../globex/orders", "Orders", "orders\x00", ""):
        with pytest.raises(NotFound):
            tenants.authenticator.topic(principal, Operation.DESCRIBE, name)


class ReadOnly:
    """Rules for the tests: everybody may describe, principal 1 may consume, nobody may produce."""

    def refusal(self, principal: Principal, operation: Operation, topic: TopicRecord) -> str | None:
        if operation is Operation.DESCRIBE or (operation is Operation.CONSUME and principal.number == 1):
            return None
        return f"the right to {operation.value} is missing"

    def group_refusal(self, principal: Principal, operation: Operation, group: str) -> str | None:
        return None

    def hint(self, principal: Principal, resource: str, name: str) -> str:
        return ""


class Hidden:
    """Rules for the tests: nothing at all."""

    def refusal(self, principal: Principal, operation: Operation, topic: TopicRecord) -> str | None:
        return "hidden"

    def group_refusal(self, principal: Principal, operation: Operation, group: str) -> str | None:
        return "hidden"

    def hint(self, principal: Principal, resource: str, name: str) -> str:
        return ""


def test_the_hook_is_asked_for_each_operation() -> None:
    tenants = Tenants(ReadOnly())
    principal = tenants.enter(ONE)
    assert tenants.authenticator.topic(principal, Operation.CONSUME, "orders").name == "orders"
    with pytest.raises(Forbidden, match="right to produce is missing"):
        tenants.authenticator.topic(principal, Operation.PRODUCE, "orders")


def test_a_topic_that_may_not_be_described_does_not_exist() -> None:
    tenants = Tenants(Hidden())
    principal = tenants.enter(ONE)
    for operation in Operation:
        with pytest.raises(NotFound):
            tenants.authenticator.topic(principal, operation, "orders")
        with pytest.raises(NotFound) as raised:
            tenants.authenticator.topic_by_id(principal, operation, TopicId(b"\1" * 16))
        assert "orders" not in raised.value.message
    assert tenants.authenticator.topics(principal) == []


# -- bindings -------------------------------------------------------------------------------------------

BINDINGS = (
    model.Binding(topic_prefix="orders", operations=("consume",)),
    model.Binding(topic_prefix="ord", operations=("produce", "describe")),
    model.Binding(topic_prefix="audit-", operations=("describe",)),
    model.Binding(topic_prefix="audit-old", operations=("delete",)),
)


@pytest.mark.parametrize(
    ("name", "granted"),
    [
        ("orders", {"describe", "produce", "consume", "verify"}),
        ("orders-eu", {"describe", "produce", "consume", "verify"}),
        ("ordinary", {"describe", "produce"}),
        ("audit-1", {"describe"}),
        ("audit-old-1", {"describe", "delete"}),
        ("audit", set()),
        ("my-orders", set()),
    ],
)
def test_a_bound_key_may_do_what_one_of_its_bindings_grants_and_all_else_is_hidden(
    name: str, granted: set[str]
) -> None:
    tenants = Tenants()
    topic = TopicRecord(
        topic_id=TopicId(b"\7" * 16), tenant=ACME, name=name, partitions=1, settings=TopicSettings()
    )
    tenants.put(model.topic_key(topic.topic_id), topic.encode())
    tenants.put(model.name_key(ACME, name), topic.topic_id.hex().encode())
    principal = tenants.enter(ONE)
    tenants.change_key(1, bindings=BINDINGS)
    for operation in Operation:
        if operation.value in granted:
            assert tenants.authenticator.topic(principal, operation, name) == topic
            if operation is not Operation.VERIFY:
                tenants.authenticator.authorize_group(principal, operation, name)
        else:
            error = Forbidden if granted else NotFound
            with pytest.raises(error, match=name):
                tenants.authenticator.topic(principal, operation, name)
            with pytest.raises(error, match=name):
                tenants.authenticator.authorize_group(principal, operation, name)
    assert (name in [found.name for found in tenants.authenticator.topics(principal)]) is bool(granted)


def test_a_binding_without_operations_grants_all_of_them() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    tenants.change_key(1, bindings=(model.Binding(topic_prefix=""),))
    for operation in Operation:
        tenants.authenticator.topic(principal, operation, "orders")
        if operation is not Operation.VERIFY:
            tenants.authenticator.authorize_group(principal, operation, "any")
    with pytest.raises(Forbidden):  # what proves invoices is read of topics alone
        tenants.authenticator.authorize_group(principal, Operation.VERIFY, "any")


def test_a_key_that_is_no_longer_known_is_granted_nothing() -> None:
    tenants = Tenants()
    principal = tenants.enter(ONE)
    tenants.put(model.credential_key(ONE.key_id), None)
    for operation in Operation:
        topic = next(iter(tenants.image.topics.values()))
        assert KeyRights(tenants.image).refusal(principal, operation, topic)
        assert KeyRights(tenants.image).group_refusal(principal, operation, "readers")


def test_a_prefix_that_two_names_share_grants_both_and_a_longer_one_its_own_alone() -> None:
    for prefix, granted in (("", 4), ("or", 3), ("orders", 2), ("orders-eu", 1), ("orders-eu-2", 0)):
        binding = model.Binding(topic_prefix=prefix, operations=("consume",))
        names = ("orders", "orders-eu", "ordinary", "invoices")
        assert sum(scope_grants(binding.scope, "consume", "topic", name) for name in names) == granted
        assert sum(scope_grants(binding.scope, "describe", "topic", name) for name in names) == granted
        assert not any(scope_grants(binding.scope, "produce", "topic", name) for name in names)


def test_a_topic_in_the_recycle_bin_does_not_exist_to_its_tenant() -> None:
    tenants = Tenants()
    principal, topic_id = tenants.enter(ONE), TopicId(bytes([1]) * 16)
    topic = tenants.image.topics[topic_id]
    tenants.put(model.topic_key(topic_id), replace(topic, binned=True).encode())
    tenants.put(model.name_key(ACME, "orders"), None)
    for operation in Operation:
        with pytest.raises(NotFound):
            tenants.authenticator.topic(principal, operation, "orders")
        with pytest.raises(NotFound, match=topic_id.hex()):
            tenants.authenticator.topic_by_id(principal, operation, topic_id)
    assert tenants.authenticator.topics(principal) == []

"""Revisions of a namespace count from its origin in etcd."""

import pytest

from data_plane.broker.etcd_keys import NamespaceKeys, Origin
from data_plane.etcd import kv_pb2 as kv
from data_plane.etcd.client import range_end

ORIGIN = Origin(made_at=40, base=100, origin_id="o")


@pytest.mark.parametrize(("etcd", "namespace"), [(40, 100), (41, 101), (90, 150)])
def test_revisions_count_from_the_origin_and_its_base(etcd: int, namespace: int) -> None:
    assert ORIGIN.to_namespace(etcd) == namespace
    assert ORIGIN.to_etcd(namespace) == etcd


def test_what_was_before_the_origin_is_its_base() -> None:
    assert ORIGIN.to_namespace(3) == 100


@pytest.mark.parametrize(("namespace", "etcd"), [(0, 0), (101, 41), (150, 90)])
def test_a_compare_names_what_the_key_has_in_etcd_and_absent_stays_absent(namespace: int, etcd: int) -> None:
    assert ORIGIN.mod_revision(namespace) == etcd


@pytest.mark.parametrize("never_given", [1, 99, 100])
def test_a_revision_of_the_store_before_compares_as_no_key_ever_does(never_given: int) -> None:
    assert ORIGIN.mod_revision(never_given) == -1


def test_an_origin_comes_back_as_it_was_written() -> None:
    item = kv.KeyValue(key=b"k", value=Origin.encode(100, "o"), mod_revision=40)
    assert Origin.decode(item) == ORIGIN


def test_cells_share_no_key() -> None:
    one, other = NamespaceKeys("a"), NamespaceKeys("ab")
    assert one.to_namespace(one.to_etcd("/live/é")) == "/live/é"
    assert one.prefix <= one.to_etcd("/x") < range_end(one.prefix)
    for key in (other.to_etcd("/x"), other.origin, one.origin):
        assert not one.prefix <= key < range_end(one.prefix)


@pytest.mark.parametrize(
    ("prefix", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", b"\0"), (b"", b"\0")]
)
def test_a_range_ends_behind_every_key_of_its_prefix(prefix: bytes, end: bytes) -> None:
    assert range_end(prefix) == end

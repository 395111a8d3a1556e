"""How the SDK's objects and errors show themselves: in a debugger, in a traceback, in a log."""

from __future__ import annotations

import pickle

import pytest

import penstock
import penstock.asyncio
from penstock.contract import errors
from penstock.profiles import connection_settings

pytestmark = pytest.mark.both_cores

SECRET = "penstock_dev_secret"


def test_errors_are_named_by_the_module_that_they_are_imported_from() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    shown = [each for each in classes if issubclass(each, penstock.PenstockError)]
    assert len(shown) > 40
    for error in shown:
        assert error.__module__ == "penstock"
        assert getattr(penstock, error.__name__) is error
    again = pickle.loads(pickle.dumps(penstock.NotFound("orders: no such topic")))
    assert type(again) is penstock.NotFound
    assert str(again) == "orders: no such topic"


def test_objects_say_what_they_are_and_no_key() -> None:
    with penstock.Client(bootstrap=["127.0.0.1:1", "127.0.0.1:2"], api_key=SECRET) as client:
        assert repr(client) == "<penstock.Client of 127.0.0.1:1, 127.0.0.1:2>"
        producer = client.producer()
        assert repr(producer) == "<penstock.Producer, 0 bytes buffered>"
        producer.close()
        assert repr(producer) == "<penstock.Producer, closed>"
        assert repr(client.consumer()) == "<penstock.Consumer of nothing>"
        consumer = client.consumer(["orders", "bills"], group="readers")
        assert repr(consumer) == "<penstock.Consumer of orders, bills in group readers>"
        consumer.stop()
        assert repr(consumer).endswith("readers, stopped>")
        consumer.close()
        assert repr(consumer).endswith("readers, closed>")
    awaited = penstock.asyncio.Client(bootstrap="127.0.0.1:1", api_key=SECRET)
    assert repr(awaited) == "<penstock.asyncio.Client of 127.0.0.1:1>"
    assert repr(awaited.producer()).startswith("<penstock.asyncio.Producer, ")
    assert repr(awaited.consumer("orders")) == "<penstock.asyncio.Consumer of orders>"
    assert SECRET not in repr(connection_settings(bootstrap="127.0.0.1:1", api_key=SECRET, environment={}))


def test_errors_have_their_attributes_from_the_beginning_in_compiled_cores_too() -> None:
    """A default of the class is none there: a broker that read one would end."""
    assert errors.OffsetOutOfRange("orders-0").beyond_end is False
    assert errors.LogTruncated("orders-0").divergence_offset == -1

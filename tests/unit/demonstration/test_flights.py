"""The demo's messages are the real flights, whole, in order, with what is missing as null."""

import json

import pytest

from demo.flights import Flight, read_flights

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights()


def test_there_are_all_flights_of_sixteen_carriers(flights: list[Flight]) -> None:
    assert len(flights) == 336_776
    assert [flight.number for flight in flights] == list(range(len(flights)))
    assert len({flight.carrier for flight in flights}) == 16
    assert len({flight.value for flight in flights}) == len(flights)


def test_what_is_missing_is_null_and_without_a_tail_number_there_is_no_key(flights: list[Flight]) -> None:
    assert sum(b":null" in flight.value for flight in flights) == 9_430
    assert sum(flight.key is None for flight in flights) == 2_512
    for flight in flights[:1_000]:
        fields = json.loads(flight.value)
        assert fields["carrier"] == flight.carrier
        assert fields["tailnum"] == (None if flight.key is None else flight.key.decode())
        assert isinstance(fields["distance"], int)


def test_they_come_in_the_order_of_their_time(flights: list[Flight]) -> None:
    times = [flight.timestamp_ms for flight in flights]
    assert times == sorted(times)
    first = json.loads(flights[0].value)
    assert (first["year"], first["month"], first["day"]) == (2013, 1, 1)


def test_a_part_of_them_is_chosen_evenly_and_numbered_anew() -> None:
    some = read_flights(1_000)
    assert [flight.number for flight in some] == list(range(1_000))
    assert json.loads(some[-1].value)["month"] == 12


def test_of_some_carriers_those_with_most_flights_are_chosen() -> None:
    some = read_flights(1_000, 3)
    assert len(some) == 1_000 and [flight.number for flight in some] == list(range(1_000))
    assert {flight.carrier for flight in some} == {"B6", "EV", "UA"}

"""Books of the controller live as long as its term of office, and answer only while it is surely the controller."""

from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.node.membership.controller_books import ControllerBooks

pytestmark = pytest.mark.pure  # the view is a stand-in


class Controller:
    """A broker whose seat and session change as the test says."""

    def __init__(self) -> None:
        self.seated = True
        self.confident = True
        self.image = SimpleNamespace(
            controller_epoch=3, brokers={1: None, 2: None, 3: None}, epoch_of={1: 7, 2: 0, 3: 9}.get
        )
        self.begun: list[int] = []
        view: Any = self
        self.books: ControllerBooks[str] = ControllerBooks(
            view, seated=lambda: self.seated, confident=lambda: self.confident, begin=self._begin
        )

    def _begin(self, epoch: int) -> str:
        self.begun.append(epoch)
        return f"books {len(self.begun)}"


def test_books_are_begun_by_the_first_question_of_a_term_and_once() -> None:
    controller = Controller()
    assert controller.books.kept is controller.books.confirmed is None
    assert [controller.books.open(), controller.books.open()] == ["books 1", "books 1"]
    assert controller.books.kept == controller.books.confirmed == "books 1"
    assert controller.begun == [3]


def test_another_term_has_other_books_and_those_before_are_not_shown_in_it() -> None:
    controller = Controller()
    controller.books.open()
    controller.image.controller_epoch = 5
    assert controller.books.kept is controller.books.confirmed is None
    assert controller.books.open() == controller.books.kept == "books 2"
    assert controller.begun == [3, 5]


def test_a_broker_without_the_seat_answers_nothing_and_forgets() -> None:
    controller = Controller()
    controller.books.open()
    controller.seated = False
    assert controller.books.kept is controller.books.confirmed is controller.books.open() is None
    controller.seated = True
    assert controller.books.kept is None, "what was granted meanwhile is not in these books"
    assert controller.books.open() == "books 2"


def test_a_session_in_doubt_answers_nothing_and_goes_on_with_the_same_books() -> None:
    controller = Controller()
    controller.confident = False
    assert controller.books.open() is None and controller.begun == []
    controller.confident = True
    controller.books.open()
    controller.confident = False
    assert controller.books.open() is controller.books.confirmed is None
    assert controller.books.kept == "books 1"
    controller.confident = True
    assert controller.books.open() == "books 1"


def test_dropped_books_are_begun_again() -> None:
    controller = Controller()
    controller.books.open()
    controller.books.drop()
    assert controller.books.kept is None and controller.books.open() == "books 2"


def test_only_brokers_with_an_epoch_are_registered() -> None:
    assert Controller().books.registered() == {1: 7, 3: 9}

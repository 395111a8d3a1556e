"""Wrong decisions that many planted bugs are made of."""

from collections.abc import Callable
from typing import Any


def answers(value: Any) -> Callable[[Any], Callable[..., Any]]:
    """Whatever is asked, the answer is `value`."""
    return lambda right: lambda *_, **__: value


def answers_property(value: Any) -> Callable[[Any], property]:
    """Whoever asks, the property is `value`."""
    return lambda right: property(lambda _: value)


def asked_about(**changed: Any) -> Callable[[Any], Callable[..., Any]]:
    """The right decision, about something else than it was asked."""
    return lambda right: lambda *arguments, **named: right(*arguments, **(named | changed))


nothing = answers(None)
"""Nothing is decided, nothing is done."""
always = answers(True)

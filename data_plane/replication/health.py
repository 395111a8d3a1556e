"""A replica's health: what its log is good for, and what makes it whole again (RL45, RL122).

    sound --damage in the only replica--> read only
    sound, read only --damage, another one can lead--> damaged, or lost tail where it is not known what is missing
    damaged, lost tail --given up--> the same, given up
    damaged, lost tail, given up --truncated, to be fetched again--> sound
    read only, damaged, lost tail --a declared loss covers it--> sound
    any --the metadata no longer wants it--> retired

A broken invariant counts as damage: where the log names nothing that is bad the replica stays as it is, and the
evidence with it (RL138).
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

from penstock.contract.invariant import invariant


@dataclass(frozen=True, slots=True)
class Sound:
    """Whole as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnly:
    """Damaged, and the only replica: it serves what is good, takes no writes, and an operator repairs it."""

    reason: str
    tail_lost: bool = False
    """It is not known what is missing at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """It takes no role. What the log names as bad is truncated and fetched again."""

    reason: str
    given_up: bool = False
    """The metadata has said since then that no broker counts on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTail:
    """It takes no role. It is not known what is missing at its end: everything is fetched again."""

    reason: str
    given_up: bool = False
    """The metadata has said since then that no broker counts on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """The metadata no longer wants it. It takes no role, and goes."""

    reason: str


Health = Sound | ReadOnly | Damaged | LostTail | Retired


class Standing(Enum):
    """What others can do for a partition when damage is found in one of its replicas."""

    ONLY = auto()
    """It leads, and there is no other replica."""
    ALONE = auto()
    """It leads, and no other replica is in sync: it goes on with what is good, and refuses the damaged range."""
    REPLACEABLE = auto()
    """It does not lead, or another replica is in sync."""


class Remedy(Enum):
    """What is to be done for a replica, by its health and by what the metadata says."""

    NONE = auto()
    GIVE_UP = auto()
    """The others count on it, or may: a write of its own takes it out of the sets of those that may lead."""
    FETCH_AGAIN = auto()
    """No broker counts on it and another one leads: truncate what is bad, and fetch it from there."""
    ACCEPT_LOSS = auto()
    """A declared loss covers all that is wrong with it: truncate it there, and go on."""


# -- what it may do ---------------------------------------------------------------------------------------


def takes_role(health: Health) -> bool:
    """May it lead or follow?"""
    return isinstance(health, Sound | ReadOnly)


def reason_of(health: Health) -> str:
    """Why it is not sound; empty when it is."""
    return "" if isinstance(health, Sound) else health.reason


# -- what happened ----------------------------------------------------------------------------------------


def at_boot(reason: str, *, tail_lost: bool, only: bool) -> Health:
    """What recovery found. `reason` is empty when nothing is wrong; `only`: the partition has no other replica."""
    if not reason:
        return Sound()
    if only:
        return ReadOnly(reason=reason, tail_lost=tail_lost)
    return LostTail(reason=reason) if tail_lost else Damaged(reason=reason)


def damaged(health: Health, reason: str, standing: Standing) -> Health:
    """Stored data failed its check, or an invariant is broken. The first reason stands."""
    invariant(bool(reason), "damage has a reason")
    match health:
        case Sound():
            if standing is Standing.ONLY:
                return ReadOnly(reason=reason)
            return health if standing is Standing.ALONE else Damaged(reason=reason)
        case ReadOnly():
            if standing is not Standing.REPLACEABLE:
                return health
            return LostTail(reason=reason) if health.tail_lost else Damaged(reason=reason)
        case Damaged() | LostTail() | Retired():
            return health
        case _:
            assert_never(health)


def gave_up(health: Health) -> Health:
    """A write that takes it out of the sets of those that may lead was applied."""
    return replace(health, given_up=True) if isinstance(health, Damaged | LostTail) else health


def retired(health: Health, reason: str) -> Retired:
    """The metadata no longer wants it."""
    return health if isinstance(health, Retired) else Retired(reason=reason)


def made_whole(health: Health) -> Health:
    """Everything bad was truncated: it is fetched again, or a declared loss covers it. A retired one stays retired."""
    return health if isinstance(health, Retired) else Sound()


# -- what is to be done -----------------------------------------------------------------------------------


def remedy(health: Health, *, loss_declared: bool, counted_on: bool, led: bool, damage_named: bool) -> Remedy:
    """`loss_declared`: it was chosen to lead as it is. `counted_on`: it leads or may lead next, by what is known here.
    `led`: the partition has a leader. `damage_named`: the log knows from where on it is bad.

    A damaged replica that was not given up yet is given up in any case: its leader may be about to take it in.
    """
    match health:
        case Sound() | Retired():
            return Remedy.NONE
        case ReadOnly():
            return Remedy.ACCEPT_LOSS if loss_declared else Remedy.NONE
        case Damaged() | LostTail():
            if loss_declared:
                return Remedy.ACCEPT_LOSS
            if counted_on or not health.given_up:
                return Remedy.GIVE_UP
            fetches = led and (damage_named or isinstance(health, LostTail))
            return Remedy.FETCH_AGAIN if fetches else Remedy.NONE
        case _:
            assert_never(health)

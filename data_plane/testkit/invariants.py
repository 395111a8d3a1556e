"""Named invariants, and what is raised when one is violated."""

from enum import Enum


class Invariant(Enum):
    """The invariants that the simulation judges, by the names that docs and planted bugs use."""

    I1 = "no acknowledged write is lost"
    I2 = "what was refused definitely is never seen"
    I3 = "an offset has one value, for every reader and replica, at all times"
    I4 = "an idempotent producer's value has one offset"
    I5 = "values of one producer stand in the order sent"
    I6 = "a reader skips nothing and is handed nothing twice, unless it asks"
    I9 = "after healing every acknowledged message is read within 60 s"
    I10 = "leaders and candidates hold everything committed"
    I11 = "replicas are equal up to the watermark, and at rest byte for byte"
    I12 = "what is committed is held by as many as the topic demands"
    I13 = "marks and epochs never go back"
    I14 = "a partition has one owner in a group, and what is committed was delivered"
    I16 = "the metadata store is linearizable, its watches ordered and gap-free"
    I18 = "no exception is left unhandled, no process ends without a cause, nothing is left behind"
    I19 = "corruption is never served"
    I20 = "after healing: a leader within 5 s, writes within 15 s, full in-sync sets within 60 s"
    I21 = "what is metered is what is committed, and nothing is metered twice"
    I22 = "what was held when a clean stop was asked for is in synced files after it"
    I23 = "records go when a client asks for it, and come back never"
    I24 = "nothing of a tenant is answered to another one, or stands where operators look"


class InvariantViolated(Exception):
    """`name` is the invariant's; the explanation holds the evidence."""

    def __init__(self, invariant: Invariant, explanation: str) -> None:
        super().__init__(f"{invariant.name} ({invariant.value}): {explanation}")
        self.invariant = invariant
        self.explanation = explanation

    @property
    def name(self) -> str:
        return self.invariant.name

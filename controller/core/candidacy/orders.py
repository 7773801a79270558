"""What can a candidacy want done? Orders are carried out one after the other, in the order in which they were given."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class Severity(IntEnum):
    """How loud a log line is; the numbers are those of Python's logging."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Claim(Struct, frozen=True):
    """Try to become the controller, with `replace` also instead of a native one; one `ClaimOutcome` must follow.

    Shape:
        The controller epoch rises by `raise_by`. `replaces_ours`: also instead of another replica of ours.
    """

    replace: bool
    raise_by: int = 1
    replaces_ours: bool = False


class BeginTerm(Struct, frozen=True):
    """Begin the term that the claim has won, and load what ZooKeeper holds."""


class Serve(Struct, frozen=True):
    """Answer clients' requests from now on."""


class Drain(Struct, frozen=True):
    """Decide nothing new, and say when nothing is in flight any more."""


class Release(Struct, frozen=True):
    """End the term, let brokers get what was told to them, and give `/controller` and the registration up."""


class Renew(Struct, frozen=True):
    """End the term, and keep `/controller`, to claim it over the old claim; the next term tells brokers everything."""


class Abandon(Struct, frozen=True):
    """End the term at once; what is still ours in ZooKeeper is given up."""


class Exit(Struct, frozen=True):
    """End the process with this exit code. Nothing is ordered after it."""

    code: int


class WakeAt(Struct, frozen=True):
    """Say `Woken` at this time. It replaces the time ordered before."""

    at: float


class Say(Struct, frozen=True):
    """Write a log line."""

    severity: Severity
    text: str
    details: dict[str, str]


TermOrder = BeginTerm | Serve | Drain | Release | Renew | Abandon
Order = Claim | TermOrder | Exit | WakeAt | Say

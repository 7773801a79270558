"""What may a candidacy order? The process executes orders one by one, in the order given."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from controller.core.candidacy.events import Unanswered
from zk_layout.ids import ControllerEpoch


class Severity(IntEnum):
    """Log severity; the numbers are those of Python's logging."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Claim(Struct, frozen=True):
    """Claim `/controller`, with `replace` even from a native controller; exactly one `ClaimOutcome` must follow.

    Shape:
        The controller epoch rises by `raise_by`, or as far above the epoch `surpass` as needed. `replaces_ours`: even
        from another replica of ours. `unanswered`: only if our challenge still stands, unanswered.
    """

    replace: bool
    raise_by: int = 1
    replaces_ours: bool = False
    surpass: ControllerEpoch = ControllerEpoch(-1)
    unanswered: Unanswered | None = None


class BeginTerm(Struct, frozen=True):
    """Begin the term that the claim won, and load the state from ZooKeeper."""


class Serve(Struct, frozen=True):
    """Answer client requests from now on."""


class Drain(Struct, frozen=True):
    """Make no new decisions, and report when nothing is in flight any more."""


class Release(Struct, frozen=True):
    """End the term once brokers have received its commands, and give up `/controller` and the registration.

    `names_successor`: first ask a standby of ours to lead, and wait for it a moment.
    """

    names_successor: bool = False


class Renew(Struct, frozen=True):
    """End the term but keep `/controller`; the next term claims it again and sends brokers full updates."""


class Abandon(Struct, frozen=True):
    """End the term at once, and give up what is still ours in ZooKeeper."""


class Exit(Struct, frozen=True):
    """End the process with this exit code. No order follows it."""

    code: int


class WakeAt(Struct, frozen=True):
    """Send `Woken` at this time. Replaces the previous `WakeAt`."""

    at: float


class Say(Struct, frozen=True):
    """Write a log line."""

    severity: Severity
    text: str
    details: dict[str, str]


TermOrder = BeginTerm | Serve | Drain | Release | Renew | Abandon
Order = Claim | TermOrder | Exit | WakeAt | Say

"""What is checked before the first claim, and what can come of it?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from controller.core.candidacy.migrating import MigrationPhase
from controller.core.clients.authorization import Withheld
from controller.preflight.inheriting import BrokerSettings
from controller.wire.versions import InterBrokerProtocol
from zk_layout.ids import BrokerId

MOST_LISTED = 10


class Check(StrEnum):
    """One question to the cluster."""

    CLUSTER = "cluster"
    BROKER_ID = "broker-id"
    PERMISSIONS = "permissions"
    BROKERS = "brokers"
    RACK = "rack"
    PROTOCOL = "protocol"
    AUTHORIZER = "authorizer"
    SETTINGS = "settings"
    ADVERTISED = "advertised-listeners"
    CLOCKS = "clocks"
    MIGRATION = "migration"


class Gravity(StrEnum):
    """The consequence of a finding: none, a line for the operator, or no claim."""

    OK = "ok"
    WARNING = "warning"
    STOP = "stop"


class Finding(Struct, frozen=True):
    """The answer to one check: what was seen and, if something is wrong, what to do.

    Shape:
        `may_pass`: it may be temporary, as when brokers have just registered and do not listen yet.
    """

    check: Check
    gravity: Gravity
    text: str
    hint: str = ""
    may_pass: bool = False

    def __str__(self) -> str:
        return f"{self.text}; {self.hint}" if self.hint else self.text


class Verdict(Struct, frozen=True):
    """All findings of one look.

    Shape:
        `has_any_answered`: some broker has answered all questions. Until then it is unknown what brokers would forbid.
        `have_all_answered`: every registered broker has done so, or has no listener for us.
        `protocols` has each registered broker's `inter.broker.protocol.version`, `settings` what it reports of those
        by which a controller decides; None if it is not known now. `withheld` says why clients must not be served.
        `migration` is the phase of one to KRaft.
    """

    findings: tuple[Finding, ...]
    has_any_answered: bool = True
    have_all_answered: bool = True
    protocols: Mapping[BrokerId, InterBrokerProtocol | None] = MappingProxyType({})
    settings: Mapping[BrokerId, BrokerSettings | None] = MappingProxyType({})
    withheld: Withheld | None = None
    migration: MigrationPhase = MigrationPhase.NONE

    @property
    def stops(self) -> tuple[Finding, ...]:
        """Why this replica must not claim."""
        return tuple(f for f in self.findings if f.gravity is Gravity.STOP)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that need an operator's attention."""
        return tuple(f for f in self.findings if f.gravity is Gravity.WARNING)


def ok(check: Check, text: str) -> Finding:
    """A check that passed."""
    return Finding(check, Gravity.OK, text)


def warning(check: Check, text: str, hint: str = "") -> Finding:
    """A finding that needs an operator's attention."""
    return Finding(check, Gravity.WARNING, text, hint)


def stop(check: Check, text: str, hint: str) -> Finding:
    """A finding that forbids a claim."""
    return Finding(check, Gravity.STOP, text, hint)


def named(brokers: Collection[BrokerId]) -> str:
    """Brokers as text.

    >>> named([BrokerId(1)]), named([BrokerId(1), BrokerId(2)])
    ('broker 1', 'brokers 1, 2')
    """
    return f"broker{'s' * (len(brokers) != 1)} {listed(brokers)}"


def not_registered(brokers: Collection[BrokerId]) -> str:
    """A sentence about brokers that are away.

    >>> not_registered([BrokerId(1)]), not_registered([BrokerId(1), BrokerId(2)])
    ('broker 1 is not registered', 'brokers 1, 2 are not registered')
    """
    return f"{named(brokers)} {'is' if len(brokers) == 1 else 'are'} not registered"


def listed(things: Collection[object]) -> str:
    """The first ten, separated by commas.

    >>> listed([1, 2]), listed(range(12))
    ('1, 2', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    texts = list(map(str, things))
    more = len(texts) - MOST_LISTED
    return ", ".join(texts[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def tolerating(findings: Sequence[Finding], tolerated: frozenset[Check]) -> tuple[Finding, ...]:
    """The same findings; those that stop a claim become warnings if the operator tolerates them."""
    return tuple(replace(f, gravity=_least(f)) if f.check in tolerated else f for f in findings)


def once_passed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings that matter to a process that may claim already: only what its brokers, once they come, prove."""
    shown = (Check.BROKERS, Check.RACK, Check.PROTOCOL, Check.AUTHORIZER, Check.MIGRATION)
    return tuple(f if f.check in shown and not f.may_pass else replace(f, gravity=_least(f)) for f in findings)


def once_sound(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings that matter to a process that has seen brokers: it leads when needed, whatever happens, unless KRaft
    takes over, or all brokers use an authorizer it lacks. It could then serve no client, and could not tell who is a
    broker."""
    return tolerating(findings, frozenset(Check) - {Check.AUTHORIZER, Check.MIGRATION})


def _least(finding: Finding) -> Gravity:
    return Gravity.WARNING if finding.gravity is Gravity.STOP else finding.gravity

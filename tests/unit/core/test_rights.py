"""Which rights does a term decide by, whatever of them can be read?"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from controller.core.machine import Machine
from controller.core.messages.effects import Answer, Effect, Notice, StepDown
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId, Event, Loaded, Observed, ReadAllowed, ReadRefused, Woke
from controller.core.messages.replies import ReassignmentsListed
from controller.core.messages.requests import Caller, ListReassignments
from controller.core.seeded_random import SeededRandom
from controller.core.settings import AuthorizerSettings, MachineSettings
from controller.core.single_znodes.unreadable import LookAgain
from tests.unit.core.builders import OWN, registration
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import ControllerEpoch, ZnodeVersion, Zxid
from zk_layout.znodes.acls import (
    AclAddress,
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

CLUSTER = AclAddress(ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"))
FOLDER = "/kafka-acl-extended/prefixed/Cluster"
DENYING = Acls((AclEntry("User:*", "*", AclOperation.ALTER, PermissionType.DENY),))
ALLOWING = Acls((AclEntry("User:ANONYMOUS", "10.0.0.1", AclOperation.DESCRIBE, PermissionType.ALLOW),))
REFUSED = ReadRefused(CLUSTER.path, "no authentication: " + CLUSTER.path, CLUSTER)


def seen(value: Acls | Malformed | None, zxid: int) -> Fact:
    if value is None:
        return absent(CLUSTER, Zxid(zxid))
    return present(CLUSTER, value, Stat(Zxid(1), Zxid(zxid), ZnodeVersion(zxid)))


class Term:
    """A machine that leads, and what it says."""

    def __init__(self, *before: Event, allows_everyone: bool = False, has_authorizer: bool = True) -> None:
        authorizer = AuthorizerSettings(("User:admin",), allows_everyone) if has_authorizer else None
        settings = MachineSettings(OWN, authorizer=authorizer)
        self.machine = Machine(settings, ControllerEpoch(1), SeededRandom(b"0"))
        self.effects: list[Effect] = []
        self._calls = 0
        self.turn(observed(registration(OWN)), *before)

    def turn(self, *events: Event) -> list[Effect]:
        effects = self.machine.turn(events, 0.0)
        assert not any(isinstance(effect, StepDown) for effect in effects)
        self.effects += effects
        return effects

    def may_describe(self, address: str = "10.0.0.1", principal: str = "User:ANONYMOUS") -> bool:
        """The answer to a client that asks which partitions move."""
        self._calls += 1
        caller = Caller("PLAINTEXT", address, principal=principal)
        effects = self.turn(Asked(CallId(self._calls), ListReassignments(None), caller))
        (reply,) = (effect.reply for effect in effects if isinstance(effect, Answer))
        assert isinstance(reply, ReassignmentsListed)
        assert reply.error in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return reply.error is ErrorCode.NONE

    def notices(self) -> list[str]:
        return [effect.text for effect in self.effects if isinstance(effect, Notice)]


def observed(*facts: Fact) -> Observed:
    return Observed(facts)


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    assert Term(observed(seen(Malformed("odd", 1), 5)), Loaded(), has_authorizer=False).may_describe()


def test_rights_count_as_they_change() -> None:
    term = Term(Loaded())
    assert not term.may_describe()

    term.turn(observed(seen(ALLOWING, 5)))
    assert term.may_describe()
    assert not term.may_describe("10.0.0.2")

    term.turn(observed(seen(None, 6)))
    assert not term.may_describe()
    assert term.may_describe(principal="User:admin")


def test_what_is_older_changes_nothing() -> None:
    term = Term(observed(seen(ALLOWING, 5)), Loaded())

    term.turn(observed(seen(None, 4)), observed(seen(DENYING, 3)))

    assert term.may_describe()


CLOSING: dict[str, tuple[list[Event], list[Event]]] = {
    "malformed": ([observed(seen(Malformed("odd", 3), 6))], [observed(seen(DENYING, 7))]),
    "malformed, then gone": ([observed(seen(Malformed("odd", 3), 6))], [observed(seen(None, 7))]),
    "refused, and the same as before": ([REFUSED], [observed(seen(DENYING, 5)), ReadAllowed(CLUSTER.path)]),
    "refused, and changed meanwhile": ([REFUSED], [observed(seen(None, 6)), ReadAllowed(CLUSTER.path)]),
    "refused, then gone": ([REFUSED], [observed(seen(None, 6))]),
    "unlisted": ([ReadRefused(FOLDER, "no authentication")], [ReadAllowed(FOLDER)]),
}


@pytest.mark.parametrize(("closing", "mending"), CLOSING.values(), ids=CLOSING)
@pytest.mark.parametrize("is_loaded", [True, False])
def test_what_cannot_be_read_is_closed_until_it_can_be(
    closing: Iterable[Event], mending: Iterable[Event], is_loaded: bool
) -> None:
    """Everyone may do what no one has rights for, and the entries deny something else."""
    before = [observed(seen(DENYING, 5))]
    if is_loaded:
        term = Term(*before, Loaded(), allows_everyone=True)
        term.turn(observed(seen(None, 5)))
        term.turn(*closing)
    else:
        term = Term(*before, *closing, Loaded(), allows_everyone=True)
    assert not term.may_describe()
    assert term.may_describe(principal="User:admin")

    term.turn(*mending)
    term.turn(observed(seen(None, 9)))
    assert term.may_describe()


@pytest.mark.parametrize(
    "events",
    [
        [observed(seen(Malformed("odd", 3), 6))],
        [REFUSED, REFUSED],
        [ReadRefused(FOLDER, f"no authentication: {FOLDER}")],
    ],
    ids=["malformed", "refused", "unlisted"],
)
def test_what_cannot_be_read_is_named_once_and_read_again(events: Iterable[Event]) -> None:
    term = Term(Loaded(), *events)
    term.turn(*events)

    (named,) = term.notices()
    assert "/Cluster" in named
    again = term.turn(Woke(LookAgain()))
    assert any(path in (CLUSTER.path, FOLDER) for effect in again for path in getattr(effect, "paths", ()))


def test_names_that_begin_alike_are_distinguished() -> None:
    prefixed = AclAddress(ResourcePattern(ResourceType.CLUSTER, "kafka", PatternType.PREFIXED))

    term = Term(observed(present(prefixed, ALLOWING, Stat(Zxid(1), Zxid(2), ZnodeVersion(0)))), Loaded())

    assert term.may_describe()


def test_addresses_are_compared_as_kafka_s_tools_spell_them() -> None:
    entry = AclEntry("User:*", "0:0:0:0:0:0:0:1", AclOperation.DESCRIBE, PermissionType.ALLOW)
    term = Term(observed(seen(Acls((entry,)), 5)), Loaded())

    assert term.may_describe("::1")
    assert not term.may_describe("::2")

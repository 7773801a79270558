"""Which SCRAM credentials may be changed, and what do a user's settings say afterwards?

A user is changed completely or not at all; a refused user does not affect others in the request.

Source: Kafka's ZkAdminManager.alterUserScramCredentials; KIP-554.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import AlterScramCredentials, ScramDeletion, ScramUpsertion
from zk_layout.codec import Malformed, one_line
from zk_layout.facts import Fact
from zk_layout.znodes.configs import Config
from zk_layout.znodes.scram import MECHANISMS, MOST_ITERATIONS

NO_NAME = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
UNKNOWN_MECHANISM = Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
TOO_FEW = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
TOO_MANY = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
TWICE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
NOT_THERE = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
NO_PATH = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "ZooKeeper takes no znode of this name; choose another user name")
NO_CREDENTIAL = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The salted password must not be empty")


class UserChange(Struct, frozen=True):
    """One request's changes of one user."""

    user: str
    parts: tuple[ScramUpsertion | ScramDeletion, ...]


def changes(request: AlterScramCredentials) -> dict[str, UserChange]:
    """Group the request by user, in order of appearance."""
    parts: dict[str, list[ScramUpsertion | ScramDeletion]] = {}
    for part in request.parts:
        parts.setdefault(part.user, []).append(part)
    return {user: UserChange(user, tuple(its)) for user, its in parts.items()}


def refuse(change: UserChange) -> Refusal | None:
    """The reason why a change is senseless, whatever the user's settings are."""
    refused = next(filter(None, map(_illegal, change.parts)), None)
    if refused is not None:
        return refused
    if len({part.mechanism for part in change.parts}) < len(change.parts):
        return TWICE
    if change.user in (".", ".."):
        return NO_PATH
    is_spelt = all(isinstance(part, ScramDeletion) or part.credential is not None for part in change.parts)
    return None if is_spelt else NO_CREDENTIAL


def _illegal(part: ScramUpsertion | ScramDeletion) -> Refusal | None:
    mechanism = MECHANISMS.get(part.mechanism)
    if not part.user:
        return NO_NAME
    if mechanism is None:
        return UNKNOWN_MECHANISM
    if isinstance(part, ScramDeletion):
        return None
    if part.iterations < mechanism.least_iterations:
        return TOO_FEW
    return TOO_MANY if part.iterations > MOST_ITERATIONS else None


def changed(change: UserChange, held: Fact) -> Config | Refusal:
    """The user's settings after a valid change; quotas and other settings stay as they are.

    Unreadable settings are never overwritten.
    """
    if isinstance(held.value, Malformed):
        reason = f"{one_line(held.address.path)} cannot be read; repair it or delete it"
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    settings: Mapping[str, str] = held.value.config if isinstance(held.value, Config) else {}
    after = dict(settings)
    for part in change.parts:
        name = MECHANISMS[part.mechanism].name
        if isinstance(part, ScramUpsertion):
            after[name] = part.credential or ""
        elif after.pop(name, None) is None:
            return NOT_THERE
    return Config(after)

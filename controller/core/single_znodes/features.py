"""Features: does `/feature` say what the inter-broker protocol asks for, and what may be finalized?

From 2.7-IV0 on feature versioning is enabled, and an enabled znode is left as it is; below it is disabled and emptied.
No broker in ZooKeeper mode supports any feature: nothing can be finalized, and what somebody has finalized taken away.

Source: Kafka's KafkaController.maybeSetupFeatureVersioning and processFeatureUpdates (KIP-584, KIP-778).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from controller.core.clients.refusal import refusal
from controller.core.messages.effects import Create, Set, Write
from controller.core.messages.errors import MESSAGES, ErrorCode, Refusal
from controller.core.messages.events import Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import FeaturesUpdated, FeatureUpdated
from controller.core.messages.requests import FeatureUpdate, UpdateFeatures
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Refused, Subject
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.codec import Malformed
from zk_layout.znodes.features import FeatureAddress, Features

ADDRESS = FeatureAddress()
SUBJECT = Subject("znode", ADDRESS.path)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_DISABLED = "Feature versioning system is disabled."


class _Attempt(Struct, frozen=True, eq=False):
    asked: Asked
    wanted: Features
    results: tuple[FeatureUpdated, ...]


class FeatureVersioning(Duty):
    """Settled when a term begins, and again whenever somebody else changes it; requests one after the other."""

    requests = (UpdateFeatures,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._queue: deque[Asked] = deque()

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Somebody wants other features."""
        request = asked.request
        assert isinstance(request, UpdateFeatures)
        if self._shared.settings.has_feature_versioning:
            self._queue.append(asked)
        else:
            out.answer(asked.call, refusal(request, ErrorCode.INVALID_REQUEST, _DISABLED))

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Enable or disable feature versioning where the znode says otherwise; then what clients ask for."""
        held, is_enabled = self._shared.state.features.value, self._shared.settings.has_feature_versioning
        if not isinstance(held, Features) or held.is_enabled != is_enabled:
            return self._set_up(out, is_enabled=is_enabled)
        while self._queue and not self._shared.transactions.is_busy(SUBJECT):
            attempt = _attempt(self._queue.popleft(), held)
            if attempt.wanted == held:
                out.answer(attempt.asked.call, FeaturesUpdated(attempt.results))
            elif self._shared.transactions.is_waiting(SUBJECT):
                _fail(attempt, out)
            else:
                why = "finalized features are taken away"
                return (Proposal(SUBJECT, (Atom((self._write(attempt.wanted),), (why,)),), memo=attempt),)
        return ()

    def _set_up(self, out: Outbox, *, is_enabled: bool) -> Sequence[Proposal]:
        fact = self._shared.state.features
        is_hidden = fact.stat is None and isinstance(fact.value, Malformed)
        if is_hidden or self._shared.transactions.is_waiting(SUBJECT):
            while self._queue:
                _fail(_in_the_dark(self._queue.popleft()), out)
        if is_hidden or not self._shared.transactions.may_propose(SUBJECT):
            return ()
        why = f"feature versioning is {'enabled' if is_enabled else 'disabled'}"
        return (Proposal(SUBJECT, (Atom((self._write(Features(is_enabled=is_enabled)),), (why,)),)),)

    def _write(self, wanted: Features) -> Write:
        fact = self._shared.state.features
        return Create(ADDRESS, wanted) if fact.stat is None else Set(ADDRESS, wanted, fact.stat.version)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """What a client asked for is written, or the znode has changed and it is judged anew."""
        attempt = proposal.memo
        if not isinstance(attempt, _Attempt):
            return
        is_there = self._shared.state.features.value == attempt.wanted
        match outcome:
            case Accepted():
                out.answer(attempt.asked.call, FeaturesUpdated(attempt.results))
            case Refused() if is_there:
                out.answer(attempt.asked.call, FeaturesUpdated(attempt.results))
            case Refused():
                self._queue.appendleft(attempt.asked)
            case _:
                _fail(attempt, out)


def _attempt(asked: Asked, held: Features) -> _Attempt:
    """Each feature is judged by itself, as Kafka does; those that are refused do not hold up others."""
    request = asked.request
    assert isinstance(request, UpdateFeatures)
    asked_first: dict[str, FeatureUpdate] = {}
    for update in request.updates:
        asked_first.setdefault(update.feature, update)  # Kafka looks no further
    refused = {name: refuse(update, held.level(name)) for name, update in asked_first.items()}
    kept = {name: level for name, level in held.features.items() if refused.get(name, _NOT_ASKED) is not None}
    results = tuple(
        FeatureUpdated(name) if why is None else FeatureUpdated(name, why.error, why.message)
        for name, why in refused.items()
    )
    return _Attempt(asked, held if request.is_validation_only else replace(held, features=kept), results)


def _in_the_dark(asked: Asked) -> _Attempt:
    """Nobody can say what is finalized."""
    request = asked.request
    assert isinstance(request, UpdateFeatures)
    results = tuple(FeatureUpdated(update.feature) for update in request.updates)
    return _Attempt(asked, Features(is_enabled=True), results)


def _fail(attempt: _Attempt, out: Outbox) -> None:
    error = ErrorCode.FEATURE_UPDATE_FAILED
    failed = (FeatureUpdated(r.feature, error, MESSAGES[error]) for r in attempt.results if not r.error)
    refused = (result for result in attempt.results if result.error)
    out.answer(attempt.asked.call, FeaturesUpdated((*failed, *refused)))


def refuse(update: FeatureUpdate, finalized: int | None) -> Refusal | None:
    """Why a feature cannot be finalized like this, given its present level; None where it is to be taken away.

    >>> refuse(FeatureUpdate("some", 1, UPGRADE), None).message
    'Could not apply finalized feature update because the provided feature is not supported.'
    """
    reason = _reason(update, finalized)
    return None if reason is None else Refusal(ErrorCode.INVALID_REQUEST, reason)


def _reason(update: FeatureUpdate, finalized: int | None) -> str | None:
    if not update.feature:
        return "Feature name can not be empty."
    if update.kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if update.level < 1:
        if update.kind == UPGRADE:
            return f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE downgradeType."
        return "Can not delete non-existing finalized feature." if finalized is None else None
    return _unsuitable(update, finalized) or (
        "Could not apply finalized feature update because the provided feature is not supported."
    )


def _unsuitable(update: FeatureUpdate, finalized: int | None) -> str | None:
    if finalized is None:
        return None
    if update.level == finalized:
        return f"Can not change a finalized feature from existing versionLevel:{finalized} to the same value."
    if update.level < finalized and update.kind != SAFE_DOWNGRADE:
        return f"Can not downgrade a finalized feature from {finalized} to {update.level} without a SAFE downgradeType."
    if update.level > finalized and update.kind != UPGRADE:
        return f"With a downgradeType, versionLevel:{update.level} can not be greater than the existing {finalized}."
    return None


_NOT_ASKED = Refusal(ErrorCode.NONE)

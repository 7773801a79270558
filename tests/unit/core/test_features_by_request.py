"""What is answered to UpdateFeatures where `/feature` cannot be written?

The stories are in tests/scenarios/features_by_request.txt; here is what they cannot show.
"""

from __future__ import annotations

from controller.core.messages.effects import Answer, Effect
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import FeaturesUpdated
from controller.core.messages.requests import Caller, FeatureUpdate, UpdateFeatures
from controller.core.single_znodes.features import ADDRESS, FeatureVersioning
from tests.unit.core.builders import Term, commits
from zk_layout.facts import Fact, Stat, present
from zk_layout.ids import ZnodeVersion, Zxid
from zk_layout.znodes.features import Features

TAKE_AWAY = FeatureUpdate("groups", 0, 2)
UNKNOWN = FeatureUpdate("unknown", 1, 1)


class Desk(Term):
    """The duty, with a ZooKeeper that does what the test says."""

    def __init__(self, **settings: object) -> None:
        super().__init__("1", **settings)
        self.duty = FeatureVersioning(self.shared)

    def ask(self, *updates: FeatureUpdate, is_validation_only: bool = False) -> list[Effect]:
        request = UpdateFeatures(updates, is_validation_only=is_validation_only)
        self.unanswered[CallId(1)] = request
        self.duty.admit(Asked(CallId(1), request, Caller("PLAINTEXT", "127.0.0.1")), self.out())
        return self.propose(self.duty)


def finalized(features: dict[str, int]) -> Features:
    return Features(is_enabled=True, features={name: {"max_version_level": level} for name, level in features.items()})


def errors(effects: list[Effect]) -> dict[str, ErrorCode]:
    (answer,) = (effect for effect in effects if isinstance(effect, Answer))
    assert isinstance(answer.reply, FeaturesUpdated)
    return {result.feature: result.error for result in answer.reply.results}


def at_version(value: Features, version: int = 0) -> Fact:
    return present(ADDRESS, value, Stat(Zxid(10), Zxid(50 + version), ZnodeVersion(version)))


def test_a_validation_writes_nothing() -> None:
    desk = Desk()
    desk.fold(at_version(finalized({"groups": 3})))

    effects = desk.ask(TAKE_AWAY, UNKNOWN, is_validation_only=True)

    assert commits(effects) == []
    assert errors(effects) == {"groups": ErrorCode.NONE, "unknown": ErrorCode.INVALID_REQUEST}


def test_of_what_is_asked_twice_of_a_feature_the_first_counts() -> None:
    desk = Desk()
    desk.fold(at_version(finalized({"groups": 3})))

    effects = desk.ask(FeatureUpdate("groups", 3, 1), TAKE_AWAY)

    assert commits(effects) == []
    assert errors(effects) == {"groups": ErrorCode.INVALID_REQUEST}


def test_where_the_znode_may_not_be_read_nothing_is_promised() -> None:
    desk = Desk()
    desk.state.refuse(ADDRESS.path, "no permission", ADDRESS)

    assert errors(desk.ask(TAKE_AWAY)) == {"groups": ErrorCode.FEATURE_UPDATE_FAILED}


def test_what_is_too_large_to_be_written_has_failed() -> None:
    desk = Desk(znode_size_limit=1000)
    desk.fold(at_version(finalized({"groups": 3, "x" * 2000: 1})))

    assert errors(desk.ask(TAKE_AWAY)) == {"groups": ErrorCode.FEATURE_UPDATE_FAILED}

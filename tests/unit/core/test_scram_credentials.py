"""Which users' SCRAM credentials are changed, and what happens on the way to ZooKeeper?

The stories are in tests/scenarios/scram_credentials.txt; here is what they cannot show.
"""

from __future__ import annotations

from controller.core.messages.effects import Answer, Effect, Read
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import ScramCredentialsAltered, UserAltered
from controller.core.messages.requests import AlterScramCredentials, Caller, ScramDeletion, ScramUpsertion
from controller.core.scram.duty import AT_ONCE_USERS, CHANGE, ScramCredentials
from controller.core.transactions.owner import TryAgain
from controller.core.transactions.proposal import Subject
from tests.unit.core.builders import Term, commits
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import ZnodeVersion, Zxid
from zk_layout.znodes.configs import Config, UserConfigAddress

ANN = UserConfigAddress("ann")


def upsertion(user: str = "ann", credential: str = "secret") -> ScramUpsertion:
    return ScramUpsertion(user, 1, 4096, credential)


def settings(version: int, **config: str) -> Fact:
    at = Zxid(2000 + version)
    return present(ANN, Config(config), Stat(at, at, ZnodeVersion(version)))


class Desk(Term):
    """The duty, with a ZooKeeper that does what the test says."""

    def __init__(self) -> None:
        super().__init__("1,2")
        self.scram = ScramCredentials(self.shared)

    def ask(self, call: int, *parts: ScramUpsertion | ScramDeletion) -> list[Effect]:
        upsertions = tuple(p for p in parts if isinstance(p, ScramUpsertion))
        request = AlterScramCredentials(upsertions, tuple(p for p in parts if isinstance(p, ScramDeletion)))
        self.unanswered[CallId(call)] = request
        out = self.out()
        self.scram.admit(Asked(CallId(call), request, Caller("PLAINTEXT", "127.0.0.1")), out)
        return out.effects

    def turn(self) -> list[Effect]:
        return self.follow(self.scram) + self.propose(self.scram)


def done(call: int, *users: str) -> Answer:
    return Answer(CallId(call), ScramCredentialsAltered(tuple(map(UserAltered, users))))


def errors(effects: list[Effect]) -> list[tuple[int, ErrorCode]]:
    answers = [(e.call, e.reply) for e in effects if isinstance(e, Answer)]
    return [
        (call, r.error) for call, reply in answers if isinstance(reply, ScramCredentialsAltered) for r in reply.results
    ]


def test_a_request_for_no_one_is_answered_at_once() -> None:
    assert Desk().ask(1) == [Answer(CallId(1), ScramCredentialsAltered(()))]


def test_nothing_is_kept_of_users_once_everybody_is_answered() -> None:
    desk = Desk()
    assert desk.ask(1, upsertion()) == [Read((ANN,))]
    desk.fold(absent(ANN, Zxid(1500)))

    (commit,) = commits(desk.turn())
    assert desk.accept(commit) == [done(1, "ann")]
    assert desk.shared.state.users.held(ANN) is None
    desk.fold(settings(9))
    assert desk.shared.state.users.held(ANN) is None
    assert desk.turn() == []


def test_settings_seen_late_do_not_count() -> None:
    desk = Desk()
    desk.ask(1, upsertion())
    desk.fold(settings(5, consumer_byte_rate="1"), settings(4))

    (commit,) = commits(desk.turn())

    assert commit.writes[0].value == Config({"consumer_byte_rate": "1", "SCRAM-SHA-256": "secret"})  # type: ignore[union-attr]  # it is no deletion


def test_what_may_not_be_read_is_not_written() -> None:
    desk = Desk()
    desk.ask(1, upsertion())

    desk.state.refuse(ANN.path, "no permission", ANN)

    effects = desk.turn()
    assert (errors(effects), commits(effects)) == ([(1, ErrorCode.UNKNOWN_SERVER_ERROR)], [])
    desk.state.refuse(ANN.path, "no permission", ANN)
    assert desk.turn() == []
    assert len(desk.state.unreadable) == 0, "no one would read it again, so no one could say when it is readable"


def test_many_users_take_several_turns() -> None:
    desk = Desk()
    users = [f"user-{n}" for n in range(AT_ONCE_USERS + 1)]
    desk.ask(1, *(upsertion(user) for user in users))
    desk.fold(*(absent(UserConfigAddress(user), Zxid(1500)) for user in users))

    first, second = commits(desk.turn()), commits(desk.turn())

    assert (sum(len(c.writes) for c in first), sum(len(c.writes) for c in second)) == (2 * AT_ONCE_USERS, 2)
    answers = [effect for commit in first + second for effect in desk.accept(commit) if isinstance(effect, Answer)]
    assert answers == [done(1, *users)]


def test_a_change_that_is_too_large_is_refused() -> None:
    desk = Desk()
    user = "ü" * 40_000
    desk.ask(1, upsertion(user, "x" * 2_000_000))
    desk.fold(absent(UserConfigAddress("%C3%BC" * 40_000), Zxid(1500)))

    (answer,) = (effect for effect in desk.turn() if isinstance(effect, Answer))

    assert isinstance(answer.reply, ScramCredentialsAltered)
    (result,) = answer.reply.results
    assert (result.user, result.error) == (user, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert len(result.message or "") < 1000


def test_after_too_many_refusals_the_next_one_waits_for_no_one() -> None:
    desk = Desk()
    desk.ask(1, upsertion())
    desk.fold(settings(0))
    effects = desk.turn()
    version = 0
    while commit := next(iter(commits(effects)), None):
        version += 1
        effects = desk.refuse(commit, settings(version), absent(CHANGE, Zxid(version))) + desk.turn()
    assert errors(effects) == [(1, ErrorCode.UNKNOWN_SERVER_ERROR)]

    desk.ask(2, upsertion())
    desk.fold(settings(version))
    assert errors(desk.turn()) == [(2, ErrorCode.UNKNOWN_SERVER_ERROR)]

    desk.transactions.resume(TryAgain(Subject("znode", ANN.path)), desk.out())
    desk.ask(3, upsertion())
    desk.fold(settings(version))
    assert len(commits(desk.turn())) == 1

"""What do a standby that challenges and a leader that answers write, and who of them wins?

A real ensemble: `tests/conformance/test_zookeeper_adapter_challenges.py`.
"""

from __future__ import annotations

import pytest

from controller.core.candidacy.challenger import Suspect
from controller.core.candidacy.events import ChallengeAnswered, Challenged, Claimed, Lost, Unanswered
from controller.zk import challenging, protocol
from controller.zk.answering import Answering
from controller.zk.answers import Reply
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout.ids import BrokerId, ControllerEpoch
from zk_layout.znodes import replicas
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.challenge import ChallengeAddress
from zk_layout.znodes.replicas import Replica, ReplicaAddress

LEADER, STANDBY, THIRD = BrokerId(901), BrokerId(902), BrokerId(903)
CHALLENGE, CONTROLLER = ChallengeAddress.path, "/controller"
SHOWN = Replica("active", True, 0, answers_challenges=True)


def registration(broker: BrokerId) -> Registration:
    return Registration((Endpoint("PLAINTEXT", f"controller-{broker}", 9092, "PLAINTEXT"),))


class Pair:
    """A leader, which answers challenges or not, and a standby."""

    def __init__(self, *, answers: bool = False, shown: bytes | None = replicas.encode(SHOWN)) -> None:
        self.ensemble = Ensemble()
        self.leader, self.standby = Process(self.ensemble), Process(self.ensemble)
        self.told: list[Challenged | ChallengeAnswered] = []
        claim = Session(self.leader.bridge, lambda _: None, LEADER).claim(registration(LEADER), replace=False)
        outcome = self.leader.do(claim)
        assert isinstance(outcome, Claimed)
        self.claimed = outcome
        self.suspect = Suspect(LEADER, outcome.epoch)
        self.ensemble.zookeeper.make_path(replicas.ROOT)
        if shown is not None:
            path = self.leader.bridge.full(ReplicaAddress(LEADER).path)
            self.leader.do(self.leader.bridge.ask(protocol.Create(path, shown, ephemeral=True)))
        self.answering = Answering(self.leader.bridge, LEADER, outcome.fence_version, self.told.append)
        self.session = Session(self.standby.bridge, lambda _: None, STANDBY)
        if answers:
            self.begin_to_answer()

    def begin_to_answer(self) -> None:
        async def begin() -> None:
            self.answering.begin()

        self.leader.do(begin())

    def make(self, suspect: Suspect | None = None) -> Unanswered | str:
        return self.standby.do(challenging.make(self.standby.bridge, suspect or self.suspect, STANDBY))

    def challenged(self) -> Unanswered:
        made = self.make()
        assert isinstance(made, Unanswered)
        return made

    def claim(self, unanswered: Unanswered) -> object:
        return self.standby.do(self.session.claim_unanswered(registration(STANDBY), unanswered))

    def version(self) -> int | None:
        node = self.ensemble.zookeeper.nodes.get(CHALLENGE)
        return None if node is None else node.version

    def rest(self, for_s: float = 2.0) -> None:
        end = self.ensemble.clock.now + for_s
        self.ensemble.clock.after(for_s, lambda: None)
        self.ensemble.until(lambda: self.ensemble.clock.now >= end)


def test_a_leader_that_does_not_answer_is_replaced_in_one_transaction_that_takes_the_challenge_along() -> None:
    pair = Pair()
    made = pair.challenged()
    assert made == Unanswered(pair.claimed.epoch, pair.claimed.fence_version)
    assert pair.ensemble.zookeeper.nodes[CHALLENGE].owner == pair.standby.bridge.session

    outcome = pair.claim(made)

    assert isinstance(outcome, Claimed)
    assert outcome.epoch == pair.claimed.epoch + 1
    assert pair.version() is None
    assert pair.ensemble.zookeeper.nodes[CONTROLLER].owner == pair.standby.bridge.session


def test_a_leader_that_answers_stays() -> None:
    pair = Pair()
    made = pair.challenged()
    pair.begin_to_answer()
    pair.ensemble.until(lambda: pair.version() == 1)

    assert pair.claim(made) == Lost("the leader has answered the challenge")
    pair.ensemble.until(lambda: pair.told == [Challenged(), ChallengeAnswered()])
    assert pair.ensemble.zookeeper.nodes[CONTROLLER].owner == pair.leader.bridge.session


def test_each_challenge_is_answered_also_one_that_stood_before_the_leader_looked() -> None:
    pair = Pair()
    pair.challenged()
    pair.begin_to_answer()
    for _ in range(3):
        pair.ensemble.until(lambda: pair.version() == 1)
        pair.standby.do(challenging.withdraw(pair.standby.bridge))
        assert pair.version() is None
        pair.make()


def test_a_challenge_that_came_while_the_leader_had_no_connection_is_answered_when_it_is_back() -> None:
    pair = Pair(answers=True)
    pair.rest()
    pair.leader.connection.drop(3.0)
    pair.challenged()
    pair.rest(1.0)
    assert pair.version() == 0

    pair.ensemble.until(lambda: pair.version() == 1)


def test_a_leader_that_has_been_replaced_does_not_answer_the_next_ones_challenge() -> None:
    pair = Pair(answers=True)
    pair.ensemble.write(SetData(EPOCH, b"9"), MakeNode(CHALLENGE, b""))
    pair.rest()

    assert pair.version() == 0
    assert pair.told == [Challenged()]


def test_a_leader_that_has_given_up_answers_no_more() -> None:
    pair = Pair(answers=True)
    pair.rest()
    pair.answering.end()
    pair.challenged()
    pair.rest()

    assert pair.version() == 0
    assert pair.leader.bridge.watch_listeners == []


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (None, "the leader is not among /kafka_zk_controller/replicas"),
        (b"{", "the leader is not among /kafka_zk_controller/replicas"),
        (replicas.encode(Replica("active", True, 0)), "the leader's release does not answer challenges"),
    ],
)
def test_a_leader_that_does_not_say_that_it_answers_is_not_challenged(shown: bytes | None, why: str) -> None:
    pair = Pair(shown=shown)

    assert pair.make() == why
    assert pair.version() is None


def test_what_another_process_says_of_the_leader_does_not_count() -> None:
    pair = Pair(shown=None)
    pair.ensemble.write(MakeNode(ReplicaAddress(LEADER).path, replicas.encode(SHOWN)))

    assert pair.make() == "the leader is not among /kafka_zk_controller/replicas"


@pytest.mark.parametrize(
    "claim",
    [
        b'{"version":2,"brokerid":901,"timestamp":"7","kraftControllerEpoch":-1}',
        b'{"version":2,"brokerid":901,"timestamp":"7","kraftControllerEpoch":5,"kafka_zk_controller":true}',
        b"{",
    ],
)
def test_a_native_controller_and_krafts_are_never_challenged(claim: bytes) -> None:
    pair = Pair()
    pair.ensemble.write(SetData(CONTROLLER, claim))

    assert isinstance(pair.make(), str)
    assert pair.version() is None


def test_a_leader_that_another_has_followed_is_not_challenged() -> None:
    pair = Pair()

    assert pair.make(Suspect(LEADER, ControllerEpoch(pair.claimed.epoch - 1))) == "another controller leads"
    assert pair.make(Suspect(THIRD, pair.claimed.epoch)) == "another controller leads"
    assert pair.version() is None


def test_while_another_replica_challenges_nobody_else_does() -> None:
    pair = Pair()
    third = Process(pair.ensemble)
    made = third.do(challenging.make(third.bridge, pair.suspect, THIRD))
    assert isinstance(made, Unanswered)

    assert pair.make() == "another replica challenges it"
    pair.standby.do(challenging.withdraw(pair.standby.bridge))
    assert pair.ensemble.zookeeper.nodes[CHALLENGE].owner == third.bridge.session
    pair.ensemble.zookeeper.close_session(third.bridge.session)
    assert isinstance(pair.make(), Unanswered)


def test_a_challenge_of_ours_that_was_left_is_removed_before_the_next() -> None:
    pair = Pair()
    pair.challenged()

    assert pair.make() == "a former challenge had to be removed first"
    assert pair.version() is None
    assert isinstance(pair.make(), Unanswered)


@pytest.mark.parametrize("seed", range(10))
def test_a_challenge_that_is_answered_just_when_it_is_withdrawn_is_withdrawn(seed: int) -> None:
    pair = Pair()
    pair.ensemble.network.random.seed(seed)
    pair.challenged()
    pair.begin_to_answer()

    pair.standby.do(challenging.withdraw(pair.standby.bridge))

    pair.rest()
    assert pair.version() is None


def test_a_challenge_that_is_answered_before_it_is_watched_is_over() -> None:
    pair = Pair(answers=True)
    pair.rest()
    asked = pair.standby.bridge.ask

    async def slow(request: protocol.Request, *, ahead: bool = False) -> Reply:
        if isinstance(request, protocol.Exists) and request.watch:
            pair.ensemble.zookeeper.nodes[CHALLENGE].version = 1
        return await asked(request, ahead=ahead)

    pair.standby.bridge.ask = slow  # type: ignore[method-assign]
    assert pair.make() == "the leader has answered already"
    pair.ensemble.until(lambda: pair.version() is None)


def test_the_claim_of_a_challenge_does_not_hit_a_leader_that_came_meanwhile() -> None:
    pair = Pair()
    made = pair.challenged()
    pair.ensemble.write(RemoveNode(CONTROLLER), MakeNode(CONTROLLER, b"another"), SetData(EPOCH, b"3"))

    assert pair.claim(made) == Lost("another controller leads")
    assert pair.ensemble.zookeeper.nodes[CONTROLLER].data == b"another"


def test_a_claim_whose_session_of_the_challenge_has_ended_takes_nothing() -> None:
    pair = Pair()
    made = pair.challenged()
    pair.ensemble.write(RemoveNode(CHALLENGE))

    assert isinstance(pair.claim(made), Lost)
    assert pair.ensemble.zookeeper.nodes[CONTROLLER].owner == pair.leader.bridge.session


def test_the_epoch_rises_as_far_as_a_claim_is_asked_to() -> None:
    pair = Pair()
    made = pair.challenged()

    outcome = pair.standby.do(pair.session.claim_unanswered(registration(STANDBY), made, raise_by=1, surpass=77))

    assert isinstance(outcome, Claimed)
    assert outcome.epoch == 78


@pytest.mark.parametrize("seed", range(20))
def test_a_claim_whose_answer_is_lost_counts_if_it_was_carried_out_and_is_not_repeated(seed: int) -> None:
    pair = Pair()
    pair.ensemble.network.random.seed(seed)
    made = pair.challenged()
    claiming = pair.standby._loop.start(pair.session.claim_unanswered(registration(STANDBY), made))
    pair.ensemble.clock.after(0.002 * seed, lambda: pair.standby.connection.drop(0.1))
    pair.ensemble.until(claiming.done)

    is_ours = pair.ensemble.zookeeper.nodes[CONTROLLER].owner == pair.standby.bridge.session
    assert isinstance(claiming.result(), Claimed) == is_ours
    assert pair.ensemble.epochs[-1] == pair.claimed.epoch + is_ours


def test_an_order_goes_ahead_of_all_that_wait() -> None:
    pair = Pair()
    bridge, order = pair.standby.bridge, list[str]()

    async def ask() -> None:
        for number in range(3 * bridge.settings.max_in_flight):
            bridge.submit(protocol.Exists("/"), lambda _, n=number: order.append(str(n)))  # type: ignore[misc]
        bridge.submit(protocol.Sync("/"), lambda _: order.append("ahead"), ahead=True)

    pair.standby.do(ask())
    pair.ensemble.until(lambda: len(order) == 3 * bridge.settings.max_in_flight + 1)

    assert order.index("ahead") == bridge.settings.max_in_flight

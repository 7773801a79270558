"""What does a real ZooKeeper make of a challenge, of its answer, and of a leader replaced while its session lives?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.core.candidacy.challenger import Suspect
from controller.core.candidacy.events import ChallengeAnswered, Challenged, Claimed, Lost, Unanswered
from controller.core.messages.effects import Commit, Create, operation
from controller.core.messages.events import CommitId, Event, Fenced
from controller.zk import challenging, protocol
from controller.zk.answering import Answering
from controller.zk.bridge import Bridge
from controller.zk.session import Session
from controller.zk.writer import Writer
from tests.conformance.adapter_world import connected, registration, someone, until
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes import replicas
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.challenge import ChallengeAddress
from zk_layout.znodes.replicas import Replica, ReplicaAddress

LEADER, STANDBY = BrokerId(100), BrokerId(101)
SHOWN = replicas.encode(Replica("active", True, 0, answers_challenges=True))


@asynccontextmanager
async def leader(connect: str) -> AsyncIterator[tuple[Bridge, Claimed]]:
    """A replica that leads, and says that it answers challenges."""
    async with connected(connect) as bridge:
        session = Session(bridge, lambda _: None, LEADER)
        await session.prepare()
        claimed = await session.claim(registration(), replace=False)
        assert isinstance(claimed, Claimed)
        with someone(connect) as other:
            other.ensure_path(replicas.ROOT)
        path = bridge.full(ReplicaAddress(LEADER).path)
        await bridge.ask(protocol.Create(path, SHOWN, ephemeral=True))
        yield bridge, claimed


async def challenged(bridge: Bridge, claimed: Claimed) -> Unanswered:
    made = await challenging.make(bridge, Suspect(LEADER, claimed.epoch), STANDBY)
    assert isinstance(made, Unanswered)
    return made


def test_a_silent_leader_is_replaced_while_its_session_lives_and_its_writes_are_refused(zookeeper: str) -> None:
    async def story() -> None:
        async with leader(zookeeper) as (old, claimed), connected(zookeeper) as bridge:
            session = Session(bridge, lambda _: None, STANDBY)
            made = await challenged(bridge, claimed)
            await challenging.sync(bridge)

            outcome = await session.claim_unanswered(registration(9093), made)

            assert isinstance(outcome, Claimed)
            assert (outcome.epoch, outcome.fence_version) == (claimed.epoch + 1, claimed.fence_version + 1)
            holder, _ = await bridge.get("/controller")
            assert holder is not None
            assert holder.stat.owner == bridge.session != old.session
            assert (await bridge.exists(ChallengeAddress.path))[0] is None
            told: list[Event] = []
            writer = Writer(old, told.append, fence_version=claimed.fence_version)
            create = operation(Create(TopicDeletionAddress(TopicName("t")), None))
            writer.submit(Commit(CommitId(1), (create,), ("to see whether it may write",)))
            await until(lambda: Fenced(CommitId(1)) in told)

    asyncio.run(story())


def test_the_end_of_the_replaced_leaders_session_leaves_the_new_claim_alone(zookeeper: str) -> None:
    async def story() -> None:
        async with connected(zookeeper) as bridge:
            async with leader(zookeeper) as (_, claimed):
                session = Session(bridge, lambda _: None, STANDBY)
                outcome = await session.claim_unanswered(registration(9093), await challenged(bridge, claimed))
                assert isinstance(outcome, Claimed)
            holder, _ = await bridge.get("/controller")
            assert holder is not None
            assert holder.stat.owner == bridge.session
            assert (await bridge.get(f"/brokers/ids/{LEADER}"))[0] is None

    asyncio.run(story())


def test_a_leader_that_answers_stays_however_late_the_claim_is(zookeeper: str) -> None:
    async def story() -> None:
        async with leader(zookeeper) as (old, claimed), connected(zookeeper) as bridge:
            told: list[Challenged | ChallengeAnswered] = []
            made = await challenged(bridge, claimed)
            Answering(old, LEADER, claimed.fence_version, told.append).begin()
            await until(lambda: told == [Challenged(), ChallengeAnswered()])

            outcome = await Session(bridge, lambda _: None, STANDBY).claim_unanswered(registration(9093), made)

            assert outcome == Lost("the leader has answered the challenge")
            holder, _ = await bridge.get("/controller")
            assert holder is not None
            assert holder.stat.owner == old.session
            await challenging.withdraw(bridge)
            assert (await bridge.exists(ChallengeAddress.path))[0] is None

    asyncio.run(story())


def test_each_challenge_is_answered_once_and_none_by_a_leader_that_was_replaced(zookeeper: str) -> None:
    async def story() -> None:
        async with leader(zookeeper) as (old, claimed):
            told: list[Challenged | ChallengeAnswered] = []
            Answering(old, LEADER, claimed.fence_version, told.append).begin()
            await challenging.sync(old)
            with someone(zookeeper) as other:
                for times in range(1, 4):
                    other.create(ChallengeAddress.path, b"")
                    await until(lambda times=times: told == [Challenged(), ChallengeAnswered()] * times)  # type: ignore[misc]
                    assert other.get(ChallengeAddress.path)[1].version == 1
                    other.delete(ChallengeAddress.path)
                    await challenging.sync(old)
                other.set("/controller_epoch", b"9")
                other.create(ChallengeAddress.path, b"")
                await until(lambda: len(told) > 6)
                await challenging.sync(old)
                assert other.get(ChallengeAddress.path)[1].version == 0
            assert ChallengeAnswered() not in told[6:]

    asyncio.run(story())


def test_the_end_of_a_challengers_session_lets_another_challenge(zookeeper: str) -> None:
    async def story() -> None:
        async with leader(zookeeper) as (_, claimed), connected(zookeeper) as bridge:
            async with connected(zookeeper) as third:
                assert isinstance(
                    await challenging.make(third, Suspect(LEADER, claimed.epoch), BrokerId(102)), Unanswered
                )
                made = await challenging.make(bridge, Suspect(LEADER, claimed.epoch), STANDBY)
                assert made == "another replica challenges it"
            await challenged(bridge, claimed)

    asyncio.run(story())

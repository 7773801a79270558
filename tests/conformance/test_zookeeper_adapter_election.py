"""Does exactly one process become the controller, even if messages get lost?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from kazoo.client import KazooClient

from controller.core.candidacy.events import (
    Claimed,
    HolderSeen,
    IdClash,
    Lost,
    Reconnected,
    Resumed,
    SessionEvent,
    SessionLost,
    Suspended,
)
from controller.core.messages.effects import Commit, Create, operation
from controller.core.messages.events import CommitId, Committed, Event, Fenced
from controller.lab.ports import free_port
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.answers import Disconnected, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.session import Session
from controller.zk.writer import Writer
from tests.conformance.adapter_world import Line, connected, register, registration, someone, until
from zk_layout.catalog import Address
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicName, ZnodeVersion
from zk_layout.znodes import brokers
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.pause import BY_HAND, Pause, PauseAddress

SWITCHOVER = "/kafka_zk_controller/switchover"


@asynccontextmanager
async def candidate(
    connect: str, own_id: int, session_timeout_ms: int = 10_000
) -> AsyncIterator[tuple[Session, list[SessionEvent], Bridge]]:
    async with connected(connect, session_timeout_ms) as bridge:
        signals: list[SessionEvent] = []
        session = Session(bridge, signals.append, BrokerId(own_id))
        await session.prepare()
        session.start()
        try:
            yield session, signals, bridge
        finally:
            session.stop()


def deletion_wish(number: int) -> Commit:
    address: Address = TopicDeletionAddress(TopicName(f"t{number}"))
    return Commit(CommitId(number), (operation(Create(address, None)),), ("to see whether we may write",))


def pass_for_native(connect: str) -> None:
    """Make the holder of `/controller` look like a native controller from now on."""
    with someone(connect) as other:
        other.set("/controller", b'{"version":2,"brokerid":100,"timestamp":"7","kraftControllerEpoch":-1}')


def test_the_first_claim_on_an_empty_ensemble_is_epoch_one(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, _, bridge):
            claimed = await session.claim(registration(), replace=False)

            assert isinstance(claimed, Claimed)
            assert (claimed.epoch, claimed.fence_version) == (1, 1)
            holder, _ = await bridge.get("/controller")
            epoch, _ = await bridge.get("/controller_epoch")
            own, _ = await bridge.get("/brokers/ids/100")
            assert holder is not None
            assert epoch is not None
            assert own is not None
            assert holder.stat.owner == own.stat.owner == bridge.session
            assert epoch.data == b"1"
            assert BrokerEpoch(own.stat.czxid) == claimed.broker_epoch
            assert brokers.decode(own.data) == msgspec.structs.replace(registration(), is_ours=True)

    asyncio.run(story())


def test_a_chroot_that_does_not_exist_is_created(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(f"{zookeeper}/deep/down", 100) as (session, _, _):
            assert isinstance(await session.claim(registration(), replace=False), Claimed)
        with someone(zookeeper) as other:
            assert other.exists("/deep/down/admin/delete_topics")

    asyncio.run(story())


def test_a_claim_raises_the_epoch_as_far_as_it_is_asked_to_and_never_above_what_brokers_can_know(
    zookeeper: str,
) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, _, _):
            claimed = await session.claim(registration(), replace=False, raise_by=1000)
            assert isinstance(claimed, Claimed)
            assert claimed.epoch == 1000
            await session.release(claimed.fence_version)
            claimed = await session.claim(registration(), replace=False, surpass=5000)
            assert isinstance(claimed, Claimed)
            assert claimed.epoch == 5001
            await session.release(claimed.fence_version)
            with someone(zookeeper) as other:
                other.set("/controller_epoch", b"2147483600")
            claimed = await session.claim(registration(), replace=False, raise_by=1000)
            assert isinstance(claimed, Claimed)
            assert claimed.epoch == 2147483601

    asyncio.run(story())


def test_a_held_controllership_is_lost_unless_it_is_to_be_replaced(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (first, first_saw, _), candidate(zookeeper, 101) as (second, _, _):
            assert isinstance(await first.claim(registration(), replace=False), Claimed)

            lost = await second.claim(registration(9093), replace=False)
            assert lost == Lost("/controller is held by broker 100")

            pass_for_native(zookeeper)
            claimed = await second.claim(registration(9093), replace=True)
            assert isinstance(claimed, Claimed)
            assert claimed.epoch == 2
            await until(lambda: _last_holder(first_saw) == 101)

    asyncio.run(story())


def test_a_replica_is_replaced_only_by_one_that_somebody_waits_for(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (first, first_saw, _), candidate(zookeeper, 101) as (second, saw, _):
            assert isinstance(await first.claim(registration(), replace=False), Claimed)
            with someone(zookeeper) as operator:
                operator.ensure_path("/kafka_zk_controller")
                operator.create(SWITCHOVER, b'{"version":1,"to":101,"by":"ann","at_ms":1}', ephemeral=True)
                await until(lambda: last(saw).is_wanted)
                assert not last(first_saw).is_wanted

                claimed = await second.claim(registration(9093), replace=True, replaces_ours=True)

                assert isinstance(claimed, Claimed)
                assert claimed.epoch == 2
                await until(lambda: _last_holder(first_saw) == 101)
            await until(lambda: not last(saw).is_wanted)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (b'{"version":1,"by":"ann","at_ms":1,"reason":"disks"}', Pause("ann", 1, "disks")),
        (b"", BY_HAND),
        (b"{", BY_HAND),
    ],
)
def test_a_pause_is_seen_when_it_begins_and_ends_whatever_its_znode_holds(
    zookeeper: str, data: bytes, known: Pause
) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 101) as (_, saw, _):
            await until(lambda: bool(saw) and last(saw).pause is None)
            with someone(zookeeper) as operator:
                operator.ensure_path("/kafka_zk_controller")
                operator.create(PauseAddress.path, data)
                await until(lambda: last(saw).pause == known)
                operator.set(PauseAddress.path, b'{"version":1,"by":"bob","at_ms":2}')
                await until(lambda: last(saw).pause == Pause("bob", 2))
                operator.delete(PauseAddress.path)
                await until(lambda: last(saw).pause is None)

    asyncio.run(story())


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"to":"101","by":"ann","at_ms":1}', b'{"to":-1}'])
def test_a_switchover_that_nobody_can_read_asks_for_nothing(zookeeper: str, data: bytes) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 101) as (_, saw, _):
            with someone(zookeeper) as operator:
                operator.ensure_path("/kafka_zk_controller")
                operator.create(SWITCHOVER, data, ephemeral=True)
                operator.create("/controller", b'{"version":1,"brokerid":3,"timestamp":"7"}', ephemeral=True)
                await until(lambda: _last_holder(saw) == 3)
                assert not last(saw).is_wanted

    asyncio.run(story())


def test_a_process_of_ours_is_never_replaced(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (first, _, _), candidate(zookeeper, 101) as (second, _, _):
            assert isinstance(await first.claim(registration(), replace=False), Claimed)
            assert isinstance(await second.claim(registration(9093), replace=True), Lost)

    asyncio.run(story())


def last(signals: list[SessionEvent]) -> HolderSeen:
    """The last fact about `/controller`."""
    seen = [s for s in signals if isinstance(s, HolderSeen)]
    return seen[-1] if seen else HolderSeen(None, False, ControllerEpoch(-1))


def _last_holder(signals: list[SessionEvent]) -> int | None:
    holder = last(signals).holder
    return holder.broker if isinstance(holder, ControllerClaim) else None


def test_a_brokers_native_controller_is_replaced_and_its_claim_is_told(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, signals, _):
            with someone(zookeeper) as broker:
                broker.create("/controller_epoch", b"41")
                broker.create("/controller", b'{"version":1,"brokerid":3,"timestamp":"7"}', ephemeral=True)
                await until(lambda: _last_holder(signals) == 3)
                assert last(signals) == HolderSeen(ControllerClaim(BrokerId(3), False, 7), False, ControllerEpoch(41))

                claimed = await session.claim(registration(), replace=True)

                assert isinstance(claimed, Claimed)
                assert (claimed.epoch, claimed.fence_version) == (42, 1)
                await until(lambda: last(signals).is_mine)

    asyncio.run(story())


def test_an_unreadable_holder_is_told_as_malformed_and_can_be_replaced(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, signals, _):
            with someone(zookeeper) as other:
                other.create("/controller", b"?", ephemeral=True)
                await until(lambda: isinstance(last(signals).holder, Malformed))
                assert isinstance(await session.claim(registration(), replace=True), Claimed)

    asyncio.run(story())


def test_a_controller_without_a_session_is_never_replaced(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, _, _):
            with someone(zookeeper) as other:
                other.create("/controller", b'{"version":2,"brokerid":3000,"timestamp":"7","kraftControllerEpoch":5}')
                lost = await session.claim(registration(), replace=True)
                assert isinstance(lost, Lost)
                assert "without a session" in lost.reason

    asyncio.run(story())


def test_a_broker_with_our_id_is_a_clash_that_says_what_to_do(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 3) as (session, _, bridge):
            with someone(zookeeper) as broker:
                register(broker, 3)
                assert await session.claim(registration(), replace=True) == IdClash(
                    "id 3 belongs to a broker at PLAINTEXT://127.0.0.1:9092; give this controller an id of its own",
                    is_our_past=False,
                )
                assert (await bridge.get("/controller"))[0] is None

    asyncio.run(story())


def test_our_own_former_session_is_told_from_a_brokers_and_ends_by_itself(zookeeper: str) -> None:
    async def story() -> None:
        former = Bridge(ZooKeeperSettings(zookeeper))
        await former.start()
        session = Session(former, lambda _: None, BrokerId(100))
        await session.prepare()
        session.start()
        assert isinstance(await session.claim(registration(), replace=False), Claimed)
        session.stop()
        async with candidate(zookeeper, 100) as (reborn, _, _):
            clash = await reborn.claim(registration(), replace=True)
            assert isinstance(clash, IdClash)
            assert clash.is_our_past
            assert "former session" in clash.reason

            await former.stop()

            assert isinstance(await reborn.claim(registration(), replace=True), Claimed)

    asyncio.run(story())


def test_of_many_claims_at_once_one_wins(zookeeper: str) -> None:
    async def story() -> None:
        async with (
            candidate(zookeeper, 100) as (a, _, _),
            candidate(zookeeper, 101) as (b, _, _),
            candidate(zookeeper, 102) as (c, _, _),
        ):
            outcomes = await asyncio.gather(
                *(s.claim(registration(9092 + n), replace=True) for n, s in enumerate((a, b, c)))
            )
            epochs = [o.epoch for o in outcomes if isinstance(o, Claimed)]
            assert epochs
            assert len(set(epochs)) == len(epochs)
            with someone(zookeeper) as other:
                assert int(other.get("/controller_epoch")[0]) == max(epochs)

    asyncio.run(story())


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_claim_whose_answer_is_lost_is_settled_after_reconnection(zookeeper: str, is_carried_out: bool) -> None:
    async def story() -> None:
        async with Line(zookeeper) as line, candidate(line.connect, 100) as (session, signals, bridge):
            tampered: list[int] = []

            def tamper(operation: int) -> str | None:
                if operation == 14 and not tampered:
                    tampered.append(operation)
                    line.is_mute = True
                    return None if is_carried_out else "close"
                return None

            line.on_request = tamper
            claim = asyncio.create_task(session.claim(registration(), replace=False))
            await until(lambda: tampered)
            await asyncio.sleep(0.3)
            line.is_mute = False
            line.cut()

            claimed = await claim

            assert isinstance(claimed, Claimed)
            assert claimed.epoch == 1
            assert line.requests.count(14) == (1 if is_carried_out else 2)
            own, _ = await bridge.get("/brokers/ids/100")
            assert own is not None
            assert BrokerEpoch(own.stat.czxid) == claimed.broker_epoch
            assert Suspended() in signals
            assert Resumed() in signals

    asyncio.run(story())


def test_a_second_claimers_epoch_fences_the_first_ones_writes(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (first, _, bridge), candidate(zookeeper, 101) as (second, _, _):
            term = await first.claim(registration(), replace=False)
            assert isinstance(term, Claimed)
            outcomes: list[Event] = []
            writer = Writer(bridge, outcomes.append, fence_version=term.fence_version)
            writer.submit(deletion_wish(1))
            await until(lambda: outcomes)

            pass_for_native(zookeeper)
            assert isinstance(await second.claim(registration(9093), replace=True), Claimed)
            writer.submit(deletion_wish(2))
            await until(lambda: len(outcomes) == 2)
            writer.submit(deletion_wish(3))

            assert isinstance(outcomes[0], Committed)
            assert outcomes[1:] == [Fenced(CommitId(2)), Fenced(CommitId(3))]
            assert (await bridge.children("/admin/delete_topics"))[0] == ["t1"]

    asyncio.run(story())


def test_release_leaves_neither_claim_nor_registration(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, signals, bridge):
            term = await session.claim(registration(), replace=False)
            assert isinstance(term, Claimed)
            assert await session.release(term.fence_version)
            assert (await bridge.get("/controller"))[0] is None
            assert (await bridge.get("/brokers/ids/100"))[0] is None
            await until(lambda: last(signals).holder is None)

            again = await session.claim(registration(), replace=False)
            assert isinstance(again, Claimed)
            assert again.epoch == 2
            assert again.broker_epoch > term.broker_epoch

    asyncio.run(story())


def test_release_after_being_replaced_takes_back_only_the_registration(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (first, _, bridge), candidate(zookeeper, 101) as (second, _, _):
            term = await first.claim(registration(), replace=False)
            assert isinstance(term, Claimed)
            pass_for_native(zookeeper)
            assert isinstance(await second.claim(registration(9093), replace=True), Claimed)

            assert not await first.release(term.fence_version)

            assert (await bridge.get("/brokers/ids/100"))[0] is None
            holder, _ = await bridge.get("/controller")
            assert holder is not None
            assert b'"brokerid":101' in holder.data

    asyncio.run(story())


def expire(bridge: Bridge, connect: str) -> None:
    """Close the session from a second connection, which looks like its expiry from the first."""
    double = KazooClient(connect, client_id=(bridge._client._session_id, bridge._client._session_passwd))
    double.start()
    double.stop()
    double.close()


def test_an_expired_session_is_told_and_a_new_one_can_claim_again(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, signals, bridge):
            term = await session.claim(registration(), replace=False)
            assert isinstance(term, Claimed)
            former = bridge.session
            await until(lambda: last(signals).is_mine)

            await asyncio.to_thread(expire, bridge, zookeeper)
            await until(lambda: SessionLost() in signals and Reconnected() in signals)
            await until(lambda: last(signals) == HolderSeen(None, False, ControllerEpoch(1)))

            assert bridge.session != former
            again = await session.claim(registration(), replace=False)
            assert isinstance(again, Claimed)
            assert again.epoch == 2

    asyncio.run(story())


def test_a_claim_does_not_outlive_its_session(zookeeper: str) -> None:
    async def story() -> None:
        async with Line(zookeeper) as line, candidate(line.connect, 100) as (session, signals, bridge):
            held: list[int] = []

            def hold(operation: int) -> str | None:
                if operation == 14 and not held:
                    held.append(operation)
                    line.is_mute = True
                    return "close"
                return None

            line.on_request = hold
            claim = asyncio.create_task(session.claim(registration(), replace=False))
            await until(lambda: held)
            await asyncio.to_thread(expire, bridge, zookeeper)
            line.is_mute = False
            line.cut()
            with pytest.raises(SessionEnded):
                await claim
            assert SessionLost() in signals

    asyncio.run(story())


def test_the_cluster_id_is_that_of_the_first_broker(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, _, _):
            assert await session.cluster_id() is None
            with someone(zookeeper) as broker:
                broker.create("/cluster/id", b'{"version":"1","id":"aBcDeFgHiJkLmNoPqRsTuv"}', makepath=True)
            assert await session.cluster_id() == "aBcDeFgHiJkLmNoPqRsTuv"

    asyncio.run(story())


def test_without_any_server_connecting_fails_in_time() -> None:
    async def story() -> None:
        bridge = Bridge(ZooKeeperSettings(f"127.0.0.1:{free_port()}/chroot", connection_timeout_ms=300))
        with pytest.raises(Disconnected, match="no ZooKeeper server answers"):
            await bridge.start()

    asyncio.run(story())


def test_fence_version_is_the_version_of_the_epoch(zookeeper: str) -> None:
    async def story() -> None:
        async with candidate(zookeeper, 100) as (session, _, bridge):
            for expected in (1, 2, 3):
                term = await session.claim(registration(), replace=False)
                assert isinstance(term, Claimed)
                epoch, _ = await bridge.get("/controller_epoch")
                assert epoch is not None
                assert term.fence_version == epoch.stat.version == ZnodeVersion(expected)

    asyncio.run(story())

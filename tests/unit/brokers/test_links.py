"""Commands reach a broker in order, whatever happens to its connection."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.brokers.links import Links
from controller.core.messages.commands import (
    Command,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.messages.effects import Connect, Disconnect, Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.wire.broker_side import ReceivedCommand, encode_acknowledgement
from controller.wire.commands import CommandEncoder, CommandRequest
from controller.wire.versions import parse_protocol
from tests.unit.brokers.peer import Peer, acknowledge, listening
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.brokers import Endpoint, Registration

FIRST_LIFE, SECOND_LIFE = BrokerEpoch(7), BrokerEpoch(8)
BROKER = BrokerId(1)


class Heard:
    """Collects acknowledgements and waits for a number of them."""

    def __init__(self) -> None:
        self.all: list[Acknowledged] = []

    def __call__(self, acknowledged: Acknowledged) -> None:
        self.all.append(acknowledged)

    async def until(self, count: int) -> list[Acknowledged]:
        while len(self.all) < count:
            await asyncio.sleep(0.002)
        return self.all


class Failures:
    """An observer that keeps why attempts failed, and the depths."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.depths: list[int] = []

    def depth_changed(self, broker: BrokerId, depth: int) -> None:
        self.depths.append(depth)

    def delivered(self, broker: BrokerId, size_bytes: int) -> None: ...

    def acknowledged(self, broker: BrokerId, command: str, took_s: float) -> None: ...

    def failed(self, broker: BrokerId, reason: str) -> None:
        self.reasons.append(reason)

    async def until(self, count: int) -> None:
        while len(self.reasons) < count:
            await asyncio.sleep(0.002)


@asynccontextmanager
async def links_to(
    *peers: Peer, protocol: str = "3.9", timeout_s: float = 5.0
) -> AsyncIterator[tuple[Links, Heard, Failures]]:
    encoder = CommandEncoder(BrokerId(99), parse_protocol(protocol), "INSIDE")
    heard, failures = Heard(), Failures()
    links = Links(encoder, "INSIDE", heard, failures, timeout_s)
    for peer in peers:
        links.connect(Connect(BROKER, FIRST_LIFE, Registration((peer.endpoint,))))
    try:
        yield links, heard, failures
    finally:
        await links.close()


def stop(number: int, is_deletion: bool = False) -> ReplicaStop:
    return ReplicaStop(TopicName("orders"), PartitionId(number), LeaderEpoch(5), is_deletion)


def tell(command: Command, life: BrokerEpoch = FIRST_LIFE) -> Tell:
    return Tell(BROKER, life, ControllerEpoch(3), command)


def stops_of(peer: Peer) -> list[int]:
    return [
        s.partition
        for received in peer.received
        if isinstance(received.command, StopReplica)
        for s in received.command.stops
    ]


def test_commands_arrive_in_order_one_at_a_time() -> None:
    at_once: list[int] = []

    async def slowly(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        before = len(peer.received)
        await asyncio.sleep(0.002)
        at_once.append(len(peer.received) - before)
        await acknowledge(peer, received, writer)

    async def story() -> None:
        async with listening(slowly) as peer, links_to(peer) as (links, heard, failures):
            for number in range(20):
                links.tell(tell(StopReplica((stop(number),))))

            acknowledged = await heard.until(20)

            assert stops_of(peer) == list(range(20))
            assert [a.command.stops[0].partition for a in acknowledged if isinstance(a.command, StopReplica)] == [
                *range(20)
            ]
            assert set(at_once) == {0}
            assert failures.depths[-1] == 0
            assert max(failures.depths) == 20

    asyncio.run(story())


def test_a_partition_that_cannot_be_made_into_bytes_is_left_out_and_named() -> None:
    async def scenario() -> None:
        async with listening() as peer, links_to(peer) as (links, heard, _):
            beyond = ReplicaStop(TopicName("orders"), PartitionId(1), LeaderEpoch(2**31), False)
            command = StopReplica((stop(0), beyond, stop(2)))
            links.tell(tell(command))

            (answer,) = await heard.until(1)

            assert stops_of(peer) == [0, 2]
            assert answer.command == command
            assert answer.errors == {
                TopicPartition(TopicName("orders"), PartitionId(1)): ErrorCode.UNKNOWN_SERVER_ERROR
            }

    asyncio.run(scenario())


def metadata(partition: int, leader_epoch: int = 1) -> UpdateMetadata:
    seen = PartitionView(
        TopicName("orders"),
        None,
        PartitionId(partition),
        ControllerEpoch(1),
        BROKER,
        LeaderEpoch(leader_epoch),
        (BROKER,),
        PartitionEpoch(1),
        0,
        (BROKER,),
    )
    return UpdateMetadata((seen,), (LiveBroker(BROKER, (Endpoint("INSIDE", "h", 1),)),))


def test_metadata_that_queue_up_travel_together_and_each_is_acknowledged() -> None:
    async def story() -> None:
        async with asyncio.timeout(20), listening() as peer, links_to(peer) as (links, heard, failures):
            commands: list[Command] = [
                metadata(0),
                metadata(1),
                metadata(2),
                StopReplica((stop(7),)),
                metadata(3),
                metadata(3, 2),
            ]
            for command in commands:
                links.tell(tell(command))

            answers = await heard.until(len(commands))

            assert [answer.command for answer in answers] == commands
            assert [type(received.command).__name__ for received in peer.received] == [
                "UpdateMetadata",
                "StopReplica",
                "UpdateMetadata",
            ]
            listed = [c.partitions for r in peer.received if isinstance(c := r.command, UpdateMetadata)]
            assert [[seen.partition for seen in some] for some in listed] == [[0, 1, 2], [3]]
            assert listed[1][0].leader_epoch == 2
            assert failures.depths[-1] == 0

    asyncio.run(story())


def test_what_cannot_be_made_into_bytes_is_named_to_the_command_that_listed_it() -> None:
    async def story() -> None:
        async with asyncio.timeout(20), listening() as peer, links_to(peer) as (links, heard, _):
            for command in (metadata(0), metadata(1, 2**31), metadata(2)):
                links.tell(tell(command))

            answers = await heard.until(3)

            beyond = TopicPartition(TopicName("orders"), PartitionId(1))
            assert [answer.errors for answer in answers] == [{}, {beyond: ErrorCode.UNKNOWN_SERVER_ERROR}, {}]
            assert len(peer.received) == 1

    asyncio.run(story())


def test_a_refused_partition_is_named_in_the_acknowledgement() -> None:
    async def refuse(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        refused = {TopicPartition(TopicName("orders"), PartitionId(1)): ErrorCode.KAFKA_STORAGE_ERROR}
        writer.write(encode_acknowledgement(received, errors=refused))

    async def story() -> None:
        async with listening(refuse) as peer, links_to(peer) as (links, heard, _):
            links.tell(tell(StopReplica((stop(0), stop(1)))))

            (acknowledged,) = await heard.until(1)

            assert acknowledged.broker_epoch == FIRST_LIFE
            assert acknowledged.errors == {("orders", 1): ErrorCode.KAFKA_STORAGE_ERROR}

    asyncio.run(story())


def test_the_same_request_is_sent_again_after_a_disconnect_before_any_later_one() -> None:
    async def hang_up_twice(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        if len(peer.received) <= 2:
            writer.transport.abort()
            raise ConnectionResetError
        await acknowledge(peer, received, writer)

    async def story() -> None:
        async with listening(hang_up_twice) as peer, links_to(peer) as (links, heard, failures):
            links.tell(tell(StopReplica((stop(1),))))
            links.tell(tell(StopReplica((stop(2),))))

            await heard.until(2)

            assert stops_of(peer) == [1, 1, 1, 2]
            assert len({received.header.correlation_id for received in peer.received}) == 2
            assert len(failures.reasons) == 2

    asyncio.run(story())


def test_a_broker_that_does_not_listen_yet_is_tried_until_it_does() -> None:
    async def story() -> None:
        async with listening() as peer:
            await peer.stop()
            async with links_to(peer) as (links, heard, failures):
                links.tell(tell(StopReplica((stop(1),))))
                await failures.until(2)

                await peer.start()
                await heard.until(1)

                assert stops_of(peer) == [1]

    asyncio.run(story())


def test_a_mute_broker_is_asked_again_on_a_new_connection_after_the_timeout() -> None:
    async def mute_at_first(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        if len(peer.received) > 1:
            await acknowledge(peer, received, writer)

    async def story() -> None:
        async with listening(mute_at_first) as peer, links_to(peer, timeout_s=0.1) as (links, heard, failures):
            links.tell(tell(StopReplica((stop(1),))))

            await heard.until(1)

            assert peer.connections == 2
            assert failures.reasons == [f"no answer from {peer.endpoint} within 0.1 s"]

    asyncio.run(story())


def test_an_answer_that_cannot_be_right_breaks_the_connection_and_is_asked_for_again() -> None:
    garbled = [
        struct.pack(">i", 2**31 - 1),  # announces two gigabytes
        struct.pack(">i", -5),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">ii", 4, 12345),  # another request's answer
    ]

    async def garble(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        if len(peer.received) <= len(garbled):
            writer.write(garbled[len(peer.received) - 1])
        elif len(peer.received) == len(garbled) + 1:  # correct up to here, then cut off
            writer.write(struct.pack(">ii", 4, received.header.correlation_id))
        else:
            await acknowledge(peer, received, writer)

    async def story() -> None:
        async with listening(garble) as peer, links_to(peer) as (links, heard, failures):
            links.tell(tell(StopReplica((stop(1),))))

            await heard.until(1)

            assert stops_of(peer) == [1] * 6
            assert peer.connections == 6
            assert len(failures.reasons) == 5

    asyncio.run(story())


def test_an_answer_on_which_the_decoder_fails_is_asked_for_again_and_ends_no_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode, failures_left = CommandEncoder.decode_acknowledgement, [RecursionError("x"), KeyError("y")]

    def decode_later(self: CommandEncoder, asked: Tell, *frames: bytes) -> Acknowledged:
        if failures_left:
            raise failures_left.pop()
        return decode(self, asked, *frames)

    monkeypatch.setattr(CommandEncoder, "decode_acknowledgement", decode_later)

    async def story() -> None:
        async with listening() as peer, links_to(peer) as (links, heard, failures):
            links.tell(tell(StopReplica((stop(0),))))
            await heard.until(1)
            assert failures.reasons == ["KeyError: 'y'", "RecursionError: x"]

    asyncio.run(story())


def test_an_idle_connection_closed_by_the_broker_costs_no_failed_attempt() -> None:
    async def story() -> None:
        async with listening() as peer, links_to(peer) as (links, heard, failures):
            links.tell(tell(StopReplica((stop(1),))))
            await heard.until(1)
            await peer.stop()
            await peer.start()
            await asyncio.sleep(0.01)

            links.tell(tell(StopReplica((stop(2),))))
            await heard.until(2)

            assert peer.connections == 2
            assert failures.reasons == []

    asyncio.run(story())


def test_a_bounced_broker_gets_nothing_that_was_meant_for_its_earlier_life() -> None:
    async def mute(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None: ...

    async def story() -> None:
        async with listening(mute) as old, listening() as new, links_to(old) as (links, heard, _):
            links.tell(tell(StopReplica((stop(1),))))
            links.tell(tell(StopReplica((stop(2),))))
            while not old.received:
                await asyncio.sleep(0.002)

            links.connect(Connect(BROKER, SECOND_LIFE, Registration((new.endpoint,))))
            links.tell(tell(StopReplica((stop(3),)), FIRST_LIFE))
            links.tell(tell(StopReplica((stop(4),)), SECOND_LIFE))
            await heard.until(1)
            await asyncio.sleep(0.05)

            assert stops_of(old) == [1]
            assert stops_of(new) == [4]
            assert [a.broker_epoch for a in heard.all] == [SECOND_LIFE]

    asyncio.run(story())


def test_the_same_life_at_a_new_address_gets_everything_that_was_queued() -> None:
    async def mute(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None: ...

    async def story() -> None:
        async with listening(mute) as old, listening() as new, links_to(old) as (links, heard, _):
            links.tell(tell(StopReplica((stop(1),))))
            links.tell(tell(StopReplica((stop(2),))))
            while not old.received:
                await asyncio.sleep(0.002)

            links.connect(Connect(BROKER, FIRST_LIFE, Registration((new.endpoint,))))
            await heard.until(2)

            assert stops_of(new) == [1, 2]

    asyncio.run(story())


def test_after_a_disconnect_nothing_is_sent_any_more() -> None:
    async def story() -> None:
        async with listening() as peer, links_to(peer) as (links, heard, failures):
            await peer.stop()
            links.tell(tell(StopReplica((stop(1),))))
            await failures.until(1)

            links.disconnect(Disconnect(BROKER))
            await peer.start()
            links.tell(tell(StopReplica((stop(2),))))
            await asyncio.sleep(0.3)

            assert peer.received == []
            assert heard.all == []
            assert failures.depths[-1] == 0

    asyncio.run(story())


def test_a_broker_without_the_listener_waits_for_a_better_registration() -> None:
    async def story() -> None:
        async with listening() as peer, links_to() as (links, heard, failures):
            elsewhere = Endpoint("OUTSIDE", "127.0.0.1", peer.port)
            links.connect(Connect(BROKER, FIRST_LIFE, Registration((elsewhere,))))
            links.tell(tell(StopReplica((stop(1),))))
            await failures.until(1)

            links.connect(Connect(BROKER, FIRST_LIFE, Registration((peer.endpoint,))))
            await heard.until(1)

            assert stops_of(peer) == [1]

    asyncio.run(story())


@pytest.mark.parametrize("has_control_plane", [True, False])
def test_commands_go_over_the_control_plane_where_the_broker_has_one(has_control_plane: bool) -> None:
    async def story() -> None:
        async with listening() as data, listening() as control:
            links = Links(
                CommandEncoder(BrokerId(99), parse_protocol("3.9"), "INSIDE"),
                "INSIDE",
                heard := Heard(),
                control_plane_listener="CONTROL",
            )
            endpoints = [data.endpoint, *[Endpoint("CONTROL", "127.0.0.1", control.port)] * has_control_plane]
            links.connect(Connect(BROKER, FIRST_LIFE, Registration(tuple(endpoints))))
            links.tell(tell(StopReplica((stop(1),))))
            await heard.until(1)
            await links.close()

            assert (len(control.received), len(data.received)) == ((1, 0) if has_control_plane else (0, 1))

    asyncio.run(story())


def test_a_secured_listener_is_refused_with_a_reason_instead_of_being_sent_plain_text() -> None:
    async def story() -> None:
        async with listening() as peer, links_to() as (links, _, failures):
            secured = Endpoint("INSIDE", "127.0.0.1", peer.port, "SSL")
            links.connect(Connect(BROKER, FIRST_LIFE, Registration((secured,))))
            links.tell(tell(StopReplica((stop(1),))))

            await failures.until(1)

            assert "uses SSL" in failures.reasons[0]
            assert peer.connections == 0

    asyncio.run(story())


def test_stops_of_both_kinds_become_two_requests_and_one_acknowledgement_for_an_old_broker() -> None:
    async def story() -> None:
        async with listening() as peer, links_to(peer, protocol="2.4") as (links, heard, _):
            links.tell(tell(StopReplica((stop(1), stop(2, is_deletion=True)))))
            links.tell(tell(StopReplica((stop(3),))))

            await heard.until(2)

            assert stops_of(peer) == [1, 2, 3]
            assert len({received.header.correlation_id for received in peer.received}) == 3
            assert len(heard.all) == 2

    asyncio.run(story())


def test_draining_waits_for_queued_commands_and_gives_up_in_time() -> None:
    async def slowly(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        await acknowledge(peer, received, writer)

    async def story() -> None:
        async with listening(slowly) as peer, links_to(peer) as (links, heard, failures):
            assert await links.drain(0.01)
            links.tell(tell(StopReplica((stop(1),))))

            assert not await links.drain(0.01)
            assert failures.depths[-1] == 1
            assert await links.drain(5.0)
            assert len(heard.all) == 1

    asyncio.run(story())


def test_a_command_of_megabytes_arrives_whole() -> None:
    views = tuple(
        PartitionView(
            TopicName(f"topic-{number // 50}"),
            None,
            PartitionId(number % 50),
            ControllerEpoch(1),
            BROKER,
            LeaderEpoch(1),
            (BROKER,),
            PartitionEpoch(1),
            0,
            (BROKER,),
        )
        for number in range(60_000)
    )
    everything = UpdateMetadata(views, (LiveBroker(BROKER, (Endpoint("INSIDE", "h", 1),)),))

    async def story() -> None:
        async with listening() as peer, links_to(peer) as (links, heard, _):
            links.tell(tell(everything))
            await heard.until(1)

            (received,) = peer.received
            assert isinstance(received.command, UpdateMetadata)
            assert len(received.command.partitions) == 60_000

    asyncio.run(story())


class Rounds(CommandEncoder):
    """Notes in which round of the event loop it encodes each command."""

    def __init__(self) -> None:
        super().__init__(BrokerId(99), parse_protocol("3.9"), "INSIDE")
        self.of_commands: list[int] = []
        self._round = 0

    def begin(self) -> None:
        """Count from now on."""
        self._round += 1
        asyncio.get_running_loop().call_soon(self.begin)

    def encode(self, tell: Tell, correlation_id: int) -> tuple[CommandRequest, ...]:
        self.of_commands.append(self._round)
        return super().encode(tell, correlation_id)


@pytest.mark.parametrize(
    ("partitions", "brokers", "expected"),
    [(1, 20, [20]), (1, 60, [45, 15]), (240, 6, [2, 2, 2]), (241, 3, [1, 1, 1]), (10_000, 3, [1, 1, 1])],
)
def test_links_encode_in_a_round_of_the_event_loop_what_takes_little_time(
    partitions: int, brokers: int, expected: list[int]
) -> None:
    async def story() -> None:
        async with listening() as peer:
            encoder, heard = Rounds(), Heard()
            links = Links(encoder, "INSIDE", heard)
            encoder.begin()
            for broker in range(brokers):
                links.connect(Connect(BrokerId(broker), FIRST_LIFE, Registration((peer.endpoint,))))
            command = StopReplica(tuple(stop(number) for number in range(partitions)))
            for broker in range(brokers):
                links.tell(Tell(BrokerId(broker), FIRST_LIFE, ControllerEpoch(3), command))

            await heard.until(brokers)

            await links.close()
            counted = Counter(encoder.of_commands)
            assert [counted[number] for number in sorted(counted)] == expected

    asyncio.run(story())


def test_the_waits_between_attempts_grow() -> None:
    async def story() -> None:
        async with listening() as peer:
            await peer.stop()
            async with links_to(peer) as (links, _, failures):
                began = time.monotonic()
                links.tell(tell(StopReplica((stop(1),))))
                await failures.until(3)
                took = time.monotonic() - began
                assert 0.3 <= took < 10  # 0.1 and 0.2 s, and up to 0.1 s of jitter each

    asyncio.run(story())


def test_commands_are_queued_only_while_one_waits_behind_another() -> None:
    async def story() -> None:
        async with listening() as peer, links_to(peer) as (links, _, _):
            assert not links.are_commands_queued()
            links.tell(tell(StopReplica((stop(1),))))
            assert not links.are_commands_queued()
            links.tell(tell(StopReplica((stop(2),))))
            assert links.are_commands_queued()

            assert await links.drain(20.0)
            assert not links.are_commands_queued()

    asyncio.run(story())


class SwallowingDialer(PlaintextDialer):
    """A dialer that loses a cancellation, as `asyncio.wait_for` does before Python 3.12 if the result comes with it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_dialing = asyncio.Event()
        self.dials = 0

    async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dials += 1
        self.is_dialing.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await PlaintextDialer().open_connection(endpoint)
        raise AssertionError


def test_a_closed_link_ends_although_its_dialer_loses_the_cancellation() -> None:
    async def story() -> None:
        broken: list[BaseException] = []
        async with listening() as peer:
            encoder, dialer, heard = (
                CommandEncoder(BrokerId(99), parse_protocol("3.9"), "INSIDE"),
                SwallowingDialer(),
                Heard(),
            )
            links = Links(encoder, "INSIDE", heard, dialer=dialer, on_broken=broken.append)
            links.connect(Connect(BROKER, FIRST_LIFE, Registration((peer.endpoint,))))
            links.tell(tell(StopReplica((stop(0),))))
            await dialer.is_dialing.wait()

            async with asyncio.timeout(5):
                await links.close()
            await asyncio.sleep(0.05)

            assert (dialer.dials, heard.all, broken, peer.received) == (1, [], [], [])

    asyncio.run(story())


def test_a_link_closed_at_any_moment_ends_at_once_and_breaks_nothing() -> None:
    async def story(moment: int) -> None:
        broken: list[BaseException] = []
        async with listening() as peer:
            encoder = CommandEncoder(BrokerId(99), parse_protocol("3.9"), "INSIDE")
            links = Links(encoder, "INSIDE", Heard(), on_broken=broken.append)
            links.connect(Connect(BROKER, FIRST_LIFE, Registration((peer.endpoint,))))
            for number in range(3):
                links.tell(tell(StopReplica((stop(number),))))
            for _ in range(moment):
                await asyncio.sleep(0)

            links.disconnect(Disconnect(BROKER))

            async with asyncio.timeout(5):
                await links.close()
            assert broken == []

    for moment in range(60):
        asyncio.run(story(moment))


def test_an_answer_without_a_waiting_request_closes_its_connection_and_nothing_else() -> None:
    async def twice(peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
        await acknowledge(peer, received, writer)
        if len(peer.received) == 1:
            await acknowledge(peer, received, writer)

    async def story() -> None:
        async with listening(twice) as peer, links_to(peer) as (links, heard, failures):
            links.tell(tell(StopReplica((stop(0),))))
            await heard.until(1)
            links.tell(tell(StopReplica((stop(1),))))
            await heard.until(2)

            assert peer.connections == 2
            assert [why for why in failures.reasons if "correlation id" not in why] == []
            assert set(stops_of(peer)) == {0, 1}

    asyncio.run(story())

"""Which servers give a sign of life, and what does each kind of silence cost?"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.core.candidacy.challenger import Heard, HungUp, Sign, Unheard
from controller.core.messages.commands import LiveBroker
from controller.process import leader_pulse
from controller.process.leader_pulse import OPENING_S, PATIENCE_S, LeaderPulse
from tests.unit.server.clients import serving
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint

LEADER = BrokerId(901)
NO_ERROR_ONE_VERSION = struct.pack(">hihhh", 0, 1, 18, 0, 3)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Every request, with one version."""
    while size := await reader.read(4):
        request = await reader.readexactly(struct.unpack(">i", size)[0])
        body = request[4:8] + NO_ERROR_ONE_VERSION
        writer.write(struct.pack(">i", len(body)) + body)


async def answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, and nothing more."""
    await one_at_a_time(reader, writer)
    await reader.read()


async def one_at_a_time(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, and then it hangs up."""
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    request = await reader.readexactly(size)
    body = request[4:8] + NO_ERROR_ONE_VERSION
    writer.write(struct.pack(">i", len(body)) + body)
    await writer.drain()


async def is_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """It takes what comes."""
    await reader.read()


async def hangs_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """It accepts, as a process that dies may."""
    writer.close()


class Leader:
    """A server in place of the leader, and a pulse that asks it."""

    def __init__(self, serve: Serve, *listeners: str) -> None:
        self._serve = serve
        self._listeners = listeners or ("PLAINTEXT",)
        self.opened = 0

    async def asked(self, times: int, *, wait_s: float = 0.0) -> list[tuple[Sign | None, float]]:
        """What the pulse says each time, and after how long; `wait_s`: for a hang-up after each answer."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.opened += 1
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        known = LiveBroker(LEADER, tuple(Endpoint(name, "127.0.0.1", port, "PLAINTEXT") for name in self._listeners))

        async def registered(leader: BrokerId) -> LiveBroker | None:
            return known if leader == LEADER else None

        pulse = LeaderPulse(registered, PlaintextDialer(), "PLAINTEXT")
        said = []
        clock = asyncio.get_running_loop().time
        for _ in range(times):
            began = clock()
            said.append((await pulse.ask(LEADER), clock() - began))
            began = clock()
            if wait_s and await pulse.hangs_up_within(wait_s):
                said.append((HungUp(), clock() - began))
        assert await pulse.ask(BrokerId(902)) is None
        pulse.close()
        server.close()
        return said


def test_a_leader_that_answers_is_asked_again_over_the_same_connection() -> None:
    leader = Leader(answers)

    assert [heard for heard, _ in asyncio.run(leader.asked(3))] == [Heard()] * 3
    assert leader.opened == 1


def test_a_silent_leader_is_waited_for_a_moment_each_time() -> None:
    said = asyncio.run(Leader(is_silent).asked(2))

    assert [heard for heard, _ in said] == [Unheard(), Unheard()]
    assert all(took_s >= OPENING_S * 0.9 for _, took_s in said)


def test_a_leader_that_falls_silent_is_noticed_sooner_on_an_open_connection() -> None:
    (first, _), (second, took_s) = asyncio.run(Leader(answers_once).asked(2))

    assert (first, second) == (Heard(), Unheard())
    assert took_s >= PATIENCE_S * 0.9


def test_an_answer_over_a_new_connection_after_a_lost_one_may_be_another_process() -> None:
    said = [sign for sign, _ in asyncio.run(Leader(one_at_a_time).asked(6))]

    assert said[:3] == [Heard(), HungUp(), Heard(is_reopened=True)]
    assert Heard() not in said[1:]


def test_a_leader_that_hangs_up_between_two_questions_is_noticed_at_once_and_told_once() -> None:
    said = asyncio.run(Leader(one_at_a_time).asked(3, wait_s=5.0))

    assert [sign for sign, _ in said] == [Heard(), HungUp(), *[Heard(is_reopened=True), HungUp()] * 2]
    assert all(took_s < 4.0 for _, took_s in said)


@pytest.mark.parametrize("serve", [answers, is_silent])
def test_without_a_hang_up_all_the_time_passes(serve: Serve) -> None:
    async def story() -> tuple[bool, float]:
        async with asyncio.timeout(30.0):
            began = asyncio.get_running_loop().time()
            assert HungUp() not in [sign for sign, _ in await Leader(serve).asked(1, wait_s=0.2)]
            return True, asyncio.get_running_loop().time() - began

    assert asyncio.run(story())[1] >= 0.2 * 0.9


def test_a_leader_that_dies_while_it_is_asked_has_hung_up_and_one_that_only_accepts_is_silent() -> None:
    connections = 0

    async def dies_at_the_second_question(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections > 1:
            return  # it accepts, as a process that dies may
        await one_at_a_time(reader, writer)
        await reader.readexactly(4)

    said = [sign for sign, _ in asyncio.run(Leader(dies_at_the_second_question).asked(4))]

    assert said == [Heard(), HungUp(), Unheard(), Unheard()]


def test_a_leader_that_hangs_up_gives_no_sign_of_life() -> None:
    assert [heard for heard, _ in asyncio.run(Leader(hangs_up).asked(2))] == [Unheard(), Unheard()]


def test_a_port_that_nobody_serves_gives_no_sign_of_life() -> None:
    async def story() -> Sign | None:
        server = await asyncio.start_server(is_silent, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()

        async def registered(_: BrokerId) -> LiveBroker | None:
            return LiveBroker(LEADER, (Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT"),))

        return await LeaderPulse(registered, PlaintextDialer(), "PLAINTEXT").ask(LEADER)

    assert asyncio.run(story()) == Unheard()


def test_a_leader_without_the_listener_cannot_be_asked() -> None:
    leader = Leader(answers, "OTHER")

    assert asyncio.run(leader.asked(1))[0][0] is None
    assert leader.opened == 0


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """So much that no answer is late on a slow machine."""
    for name in ("PATIENCE_S", "OPENING_S"):
        monkeypatch.setattr(leader_pulse, name, 30.0)


@pytest.mark.usefixtures("patience")
def test_a_leader_that_zookeeper_does_not_answer_gives_no_sign_of_life_until_it_does() -> None:
    cut_off = [False, True, True, False]

    async def story() -> list[Sign | None]:
        async with serving() as server:
            server.show_life(lambda: cut_off.pop(0))
            known = LiveBroker(LEADER, (Endpoint("OUTSIDE", "127.0.0.1", server.ports["OUTSIDE"], "PLAINTEXT"),))

            async def registered(_: BrokerId) -> LiveBroker:
                return known

            pulse = LeaderPulse(registered, PlaintextDialer(), "OUTSIDE")
            said = [await pulse.ask(LEADER) for _ in range(4)]
            pulse.close()
            return said

    assert asyncio.run(story()) == [Heard(), Unheard(), Unheard(), Heard()]


@pytest.mark.usefixtures("patience")
def test_a_process_that_was_started_again_and_has_not_found_zookeeper_yet_stays_in_doubt() -> None:
    offers = [NO_ERROR_ONE_VERSION, None, struct.pack(">hi", 0, 0), NO_ERROR_ONE_VERSION, NO_ERROR_ONE_VERSION]

    async def answers_in_turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            request = await reader.readexactly(struct.unpack(">i", size)[0])
            offered = offers.pop(0)
            if offered is None:
                return
            writer.write(struct.pack(">i", 4 + len(offered)) + request[4:8] + offered)

    said = [sign for sign, _ in asyncio.run(Leader(answers_in_turn).asked(5))]

    assert said == [Heard(), HungUp(), Unheard(), Heard(is_reopened=True), Heard()]

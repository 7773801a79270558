"""Can any bytes on a listener harm more than their own connection?

Sound requests of every API and version are mutated and sent to a real listener with a real term behind it. Nothing may
be an internal error, end the term, hold the event loop up, or use up memory; a healthy client is answered meanwhile.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import itertools
import logging
import resource
import socket
import struct
import time
from collections.abc import Iterator
from random import Random

import click
import structlog
from msgspec import Struct

from controller.core.clients.refusal import refusal
from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import DescribeCluster
from controller.process.lifetime import COLLECTION_THRESHOLDS
from controller.settings.limits import Limits
from controller.wire.any_node import decode_config_resources
from controller.wire.apis import COMMANDS, CONFIGS
from controller.wire.broker_side import decode_command
from controller.wire.replies import encode_reply
from controller.wire.requests import (
    ApiVersionsRequest,
    UnreadableRequest,
    UnsupportedApi,
    decode_header,
    decode_request,
)
from tests.fuzz.reign import Heartbeat, Reign
from tests.fuzz.sound_frames import sound_frames

MOST_STALL_CPU_S = 0.1
MOST_GROWTH_MIB = 256
FRAMES_A_REIGN = 20_000
CONNECTIONS = 8
LONGEST_FRAME = 200_000
HEALTHY = struct.pack(">hhih", 46, 0, 7, 1) + b"h\0\0\0\0\0\0\0"
HEALTHY_WITHIN_S = 10.0

EXTREMES = (-(2**31), -2, -1, 0, 1, 127, 128, 2**15 - 1, 2**15, 2**31 - 1)
VARINTS = (b"\0", b"\1", b"\x7f", b"\x80\1", b"\xff\x7f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x7f", b"\x80" * 9)


class Broken(AssertionError):
    """A promise was broken; says which, and by what."""


class Frames:
    """A seeded, endless supply."""

    def __init__(self, seed: int) -> None:
        """The same for the same seed."""
        self._random = Random(seed)
        self._sound = sound_frames()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self.next()

    def next(self) -> bytes:
        """A frame that is more or less malformed; now and then it is still sound."""
        random = self._random
        frame = bytearray(random.choice(self._sound))
        for _ in range(random.choice((0, 1, 1, 1, 2, 3, 6))):
            self._mutate(frame)
            del frame[LONGEST_FRAME:]  # in advance: making one must not count as the server's time
        return bytes(frame)

    def _mutate(self, frame: bytearray) -> None:
        random = self._random
        at = random.randrange(len(frame) + 1)
        match random.randrange(10):
            case 0:
                frame[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                frame[at : at + 4] = struct.pack(">i", random.choice(EXTREMES))
            case 2:
                frame[at : at + 2] = struct.pack(">H", random.choice(EXTREMES) & 0xFFFF)
            case 3:
                frame[at : at + 1] = random.choice(VARINTS)
            case 4:
                del frame[at : at + random.choice((1, 2, 4, 1000))]
            case 5:
                frame[at:at] = random.randbytes(random.choice((1, 2, 4, 40)))
            case 6:
                frame[2:4] = struct.pack(">h", random.choice((*range(16), 99, -1)))
            case 7:
                other = random.choice(self._sound)
                frame[at:] = other[random.randrange(len(other) + 1) :]
            case _:
                self._repeat(frame, at)

    def _repeat(self, frame: bytearray, at: int) -> None:
        random = self._random
        part = frame[at : at + random.choice((1, 2, 4, 8, 30))]
        frame[at:at] = part * random.choice((1, 2, 7, 100, 2000, 20_000))


def decode(frame: bytes) -> None:
    """Decode a frame in every way that needs no term.

    Raises:
        Broken: anything but the errors that close one connection.
    """
    began = time.thread_time()
    try:
        _decode(frame)
    except UnreadableRequest:
        pass
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {error} by {frame[:500].hex()} ({len(frame)} bytes)") from error
    took_s = time.thread_time() - began
    if took_s > 10 * MOST_STALL_CPU_S:  # it happens beside the event loop
        raise Broken(f"{took_s:.2f} s were spent on {frame[:500].hex()} ({len(frame)} bytes)")


def _decode(frame: bytes) -> None:
    try:
        header, request = decode_request(frame)
    except UnsupportedApi:
        header = decode_header(frame)
        if header.api_key in COMMANDS:
            decode_command(frame)
        elif header.api_key in CONFIGS:
            decode_config_resources(header, frame)
        return
    if not isinstance(request, ApiVersionsRequest | DescribeCluster):
        encode_reply(header, refusal(request, ErrorCode.NOT_CONTROLLER))


class Tried(Struct):
    """The counts and the worst stalls; turns of the term are no stalls of the server."""

    frames: int = 0
    answered: int = 0
    closed: int = 0
    healthy: int = 0
    longest_stall_cpu_s: float = 0.0
    longest_stall_s: float = 0.0
    longest_turn_cpu_s: float = 0.0
    slowest_healthy_s: float = 0.0
    peak_mib: float = 0.0


class Trial:
    """Frames against one term after another."""

    def __init__(self, seed: int) -> None:
        self._frames = Frames(seed)
        self._random = Random(seed + 1)
        self._recent: collections.deque[bytes] = collections.deque(maxlen=2 * CONNECTIONS)
        self.tried = Tried()

    async def run(self, count: int) -> None:
        """So many frames against a term of their own.

        Raises:
            Broken: a promise was broken.
        """
        reign = Reign(limits=Limits(most_connections=3 * CONNECTIONS, request_s=1.0))
        heart = Heartbeat(reign.turns)
        await reign.begin()
        before = _resident_mib()
        heart.begin()
        numbers = itertools.count()
        try:
            async with asyncio.TaskGroup() as tasks:
                healthy = tasks.create_task(self._stay_healthy(reign))
                senders = [tasks.create_task(self._send_all(reign, numbers, count, heart)) for _ in range(CONNECTIONS)]
                await asyncio.wait(senders)
                healthy.cancel()
        finally:
            heart.end()
            await reign.end()
        tried = self.tried
        tried.longest_stall_s = max(tried.longest_stall_s, heart.longest_s)
        tried.longest_stall_cpu_s = max(tried.longest_stall_cpu_s, heart.longest_cpu_s)
        tried.longest_turn_cpu_s = max(tried.longest_turn_cpu_s, reign.turns.longest_s)
        tried.peak_mib = max(tried.peak_mib, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        self._check(reign, heart)
        if _resident_mib() - before > MOST_GROWTH_MIB:
            raise Broken(f"from {before:.0f} MiB to {_resident_mib():.0f} MiB in {count} frames")

    async def _send_all(self, reign: Reign, numbers: Iterator[int], count: int, heart: Heartbeat) -> None:
        while next(numbers) < count:
            frame = self._frames.next()
            self._recent.append(frame)
            self.tried.frames += 1
            if await self._send(reign.port, frame):
                self.tried.answered += 1
            else:
                self.tried.closed += 1
            self._check(reign, heart)

    async def _send(self, port: int, frame: bytes) -> bool:
        """Send a frame; return whether it was answered before the connection closed or the time was over."""
        size = len(frame) if self._random.random() > 0.02 else self._random.choice((*EXTREMES, len(frame) + 5))
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setblocking(False)
            with contextlib.suppress(OSError, TimeoutError):
                await loop.sock_connect(client, ("127.0.0.1", port))
                async with asyncio.timeout(0.2):
                    await loop.sock_sendall(client, struct.pack(">i", size) + frame)
                    return bool(await loop.sock_recv(client, 1000))
        return False

    async def _stay_healthy(self, reign: Reign) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", reign.port))
            while True:
                began = time.monotonic()
                try:
                    async with asyncio.timeout(HEALTHY_WITHIN_S):
                        await loop.sock_sendall(client, struct.pack(">i", len(HEALTHY)) + HEALTHY)
                        answer = await loop.sock_recv(client, 1_000_000)
                except TimeoutError:
                    raise Broken(f"a healthy client waited {HEALTHY_WITHIN_S} s") from None
                except ConnectionError as error:
                    raise self._broken(f"a healthy client was disconnected: {error}") from error
                if not answer:
                    raise self._broken("a healthy client was disconnected")
                self.tried.healthy += 1
                self.tried.slowest_healthy_s = max(self.tried.slowest_healthy_s, time.monotonic() - began)
                await asyncio.sleep(0.02)

    def _check(self, reign: Reign, heart: Heartbeat) -> None:
        problems = [*reign.ended, *reign.internal_errors]
        if heart.longest_cpu_s > MOST_STALL_CPU_S:
            problems.append(f"the event loop was held up for {heart.longest_cpu_s:.2f} s of processor time")
        if problems:
            raise self._broken(problems[0])

    def _broken(self, problem: str) -> Broken:
        recent = "\n".join(f"  {len(frame)} bytes: {frame[:300].hex()}" for frame in self._recent)
        return Broken(f"{problem}, after {self.tried.frames} frames, by one of\n{recent}")


def _resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def try_frames(seed: int, count: int) -> Tried:
    """So many frames, through the decoders and against listeners; the same for the same seed.

    Raises:
        Broken: a promise was broken.
    """
    for frame in itertools.islice(Frames(seed), count):
        decode(frame)
    trial, left = Trial(seed), count
    while left:
        now = min(left, FRAMES_A_REIGN)
        asyncio.run(trial.run(now))
        left -= now
    return trial.tried


@click.command()
@click.option("--frames", default=20_000, help="How many to send.")
@click.option("--seed", default=0, help="Where to begin.")
@click.option("--minutes", type=float, help="Continue with the next seed for this long.")
def command(frames: int, seed: int, minutes: float | None) -> None:
    """Send mutated requests to a listener."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    until = time.monotonic() + (minutes or 0.0) * 60
    for number in itertools.count(seed):
        _tell(number, try_frames(number, frames))
        if time.monotonic() >= until:
            break


def _tell(seed: int, tried: Tried) -> None:
    click.echo(
        f"seed {seed}: "
        f"{tried.frames} frames, {tried.answered} answered, {tried.closed} connections closed; {tried.healthy} answers "
        f"to a healthy client, the slowest after {tried.slowest_healthy_s:.3f} s; longest stall "
        f"{tried.longest_stall_cpu_s:.3f} s of processor time, {tried.longest_stall_s:.3f} s by the clock; "
        f"longest turn of the term {tried.longest_turn_cpu_s:.3f} s; "
        f"{tried.peak_mib:.0f} MiB at most"
    )

"""How long is each client without a controller after SIGKILL, under ours and under the native one?

All clients send requests at once, through the addresses of the brokers, each with one long-lived admin client.
The leader is killed in each round.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from controller.demo.replicas import Replica, ReplicaSettings, total
from controller.demo.waiting import wait_for
from tests.clients.operations import without_addresses
from tests.clients.programs import Client, Program
from tests.clients.running import Plan
from tests.clients.stage import MOVE_TO, NATIVE, OURS, OWN_ID, Stage

RESTARTED, DEAD = "restarted", "stays dead"
RESTART_AFTER_S = 2.0  # RestartSec of deploy/kafka-zk-controller.service
WATCH_S = 40.0
_WARM_S = 14.0
_WARM_SUCCESSES = 5
_HANGING_S = 3.0
_STANDBY_ID = OWN_ID + 1


class Attempt(Struct, frozen=True):
    """One request of a client; times in ms of the wall clock."""

    begun: float
    ended: float
    error: str | None


class Recovery(Struct, frozen=True):
    """One client's recovery from one kill.

    Shape:
        `recovered_s` is absent if no request sent after the kill succeeded while we watched; `failed` counts the
        attempts that failed until then.
    """

    client: str
    leader: str
    then: str
    recovered_s: float | None
    failed: int
    silence_s: float
    errors: tuple[str, ...]


class Handover(Struct, frozen=True):
    """The time from the kill until the next controller raised the epoch."""

    leader: str
    then: str
    elected_s: float


class Recoveries(Struct, frozen=True):
    """All results of a run."""

    day: str
    kafka: str
    seen: tuple[Recovery, ...]
    handovers: tuple[Handover, ...]


def judge(attempts: Sequence[Attempt], killed_ms: float, until_ms: float) -> tuple[float | None, int, float]:
    """Seconds until a request sent after the kill succeeded, failures until then, and the longest silence.

    >>> judge([Attempt(0, 10, None), Attempt(110, 900, "no"), Attempt(1000, 1500, None)], 100, 2000)
    (1.4, 1, 1.49)
    >>> judge([Attempt(0, 10, None)], 100, 2010)
    (None, 0, 2.0)
    """
    first = next((seen.ended for seen in attempts if seen.begun >= killed_ms and seen.error is None), None)
    end = until_ms if first is None else first
    failed = sum(seen.error is not None and killed_ms <= seen.ended <= end for seen in attempts)
    successes = [seen.ended for seen in attempts if seen.error is None and seen.ended <= until_ms]
    before = [ended for ended in successes if ended < killed_ms][-1:] or [killed_ms]
    times = [*before, *(ended for ended in successes if ended >= killed_ms), until_ms]
    silence = max(later - earlier for earlier, later in pairwise(times))
    return None if first is None else round((first - killed_ms) / 1000, 3), failed, round(silence / 1000, 3)


def read(said: bytes) -> list[Attempt]:
    """The attempts among a program's lines.

    >>> read(b'noise\\n{"operation": "a"}\\n{"begun": 1, "ended": 2, "error": null}\\n')
    [Attempt(begun=1.0, ended=2.0, error=None)]
    """
    found = []
    for line in said.splitlines():
        try:
            found.append(msgspec.json.decode(line, type=Attempt))
        except msgspec.MsgspecError:
            continue
    return found


Asking = Mapping[str, tuple[subprocess.Popen[bytes], Path]]
Ready = Mapping[str, tuple[Client, Program]]
Say = Callable[[str], None]


class Kill(Struct):
    """How to kill the leader, and what happens to it then."""

    strike: Callable[[], None]
    restart: Callable[[], None]


def measure(made: Stage, ready: Ready, rounds: int, say: Say, keep: Callable[[Any, Any], None]) -> None:
    """Both variants under the native controller, then under ours; `keep` gets the figures of each kill at once."""
    for number in range(rounds):
        for then in (RESTARTED, DEAD):
            _round(made, ready, (NATIVE, then), f"native-{number}-{then[:4]}", _native(made), say, keep)
            _wait_for_brokers(made)
    with _led_by_ours(made, made.cluster.directory / "recovery") as replicas:
        for number in range(rounds):
            for then in (RESTARTED, DEAD):
                _round(made, ready, (OURS, then), f"ours-{number}-{then[:4]}", _ours(replicas), say, keep)
                _wait_for_replicas(replicas)


def _round(
    made: Stage,
    ready: Ready,
    what: tuple[str, str],
    prefix: str,
    kill: Kill,
    say: Say,
    keep: Callable[[Any, Any], None],
) -> None:
    leader, then = what
    say(f"{leader}, {then}: clients start")
    with _asking(made, ready, prefix) as asking:
        epoch = made.znodes.controller_epoch()
        killed = time.time()
        kill.strike()
        restarting = threading.Thread(target=kill.restart)
        if then == RESTARTED:
            restarting.start()
        wait_for(lambda: made.znodes.controller_epoch() != epoch or None, "the next controller", every_s=0.02)
        elected_s = round(time.time() - killed, 2)
        say(f"  the next controller after {elected_s} s")
        time.sleep(max(0.0, killed + WATCH_S - time.time()))
        until = time.time()
        _await_ends(asking, say)
    found = []
    for title, (_, said) in asking.items():
        attempts = read(said.read_bytes())
        recovered_s, failed, silence_s = judge(attempts, killed * 1000, until * 1000)
        errors = sorted(
            {without_addresses(seen.error)[:160] for seen in attempts if seen.error and seen.ended >= killed * 1000}
        )
        found.append(Recovery(title, leader, then, recovered_s, failed, silence_s, tuple(errors)))
        say(f"  {title}: {recovered_s} s, {failed} failed, silent for {silence_s} s; {errors[:3]}")
    keep(found, Handover(leader, then, elected_s))
    if then == RESTARTED:
        restarting.join()
    else:
        kill.restart()


@contextmanager
def _asking(made: Stage, ready: Ready, prefix: str) -> Iterator[Asking]:
    """Run all clients at once; the `with` begins when each has had answers, and ends when all have ended."""
    ask_for_s = _WARM_S + WATCH_S
    bootstrap = made.bootstrap("brokers")
    asking: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
    try:
        for title, (client, program) in ready.items():
            name = f"{client.slug}-{prefix.replace(' ', '-')}"
            said = made.cluster.directory / f"{name}.asking"
            plan = Plan(bootstrap, name, ("validate_only", "keep_asking"), MOVE_TO, ask_for_s + _HANGING_S, ask_for_s)
            with said.open("wb") as output:
                process = subprocess.Popen(
                    program.argv,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **program.env},
                    start_new_session=True,
                )
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(plan))
            process.stdin.close()
            asking[title] = process, said

        def are_warm() -> bool:
            return all(_successes(said) >= _WARM_SUCCESSES for _, said in asking.values())

        wait_for(lambda: are_warm() or None, "every client having had answers", every_s=0.2)
        time.sleep(2)
        yield asking
    finally:
        for process, _ in asking.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _successes(said: Path) -> int:
    return sum(seen.error is None for seen in read(said.read_bytes()))


def _await_ends(asking: Asking, say: Say) -> None:
    """Wait until every program has ended by itself."""
    for title, (process, _) in asking.items():
        try:
            process.wait(_WARM_S + _HANGING_S + 10)
        except subprocess.TimeoutExpired:
            say(f"  {title} does not end: killed")


def _native(made: Stage) -> Kill:
    broker = made.cluster.brokers[made.leader()]
    # A broker gives up while its id is taken, so it starts when its former session is over.
    return Kill(broker.kill, broker.start)


def _wait_for_brokers(made: Stage) -> None:
    for broker in made.cluster.brokers.values():
        broker.wait_until_registered()


@contextmanager
def _led_by_ours(made: Stage, directory: Path) -> Iterator[Sequence[Replica]]:
    replicas: list[Replica] = []
    try:
        for replica_id in (OWN_ID, _STANDBY_ID):
            settings = ReplicaSettings(replica_id, made.cluster.zookeeper_connect, made.cluster.version)
            replicas.append(Replica(settings, directory))
            replicas[-1].process.start()
            if len(replicas) == 1:
                _wait_until_obeyed(replicas[0])
        _wait_for_replicas(replicas)
        yield replicas
    finally:
        for replica in reversed(replicas):
            replica.process.stop()


def _wait_until_obeyed(replica: Replica) -> None:
    replica.process.wait_until(
        lambda: total(replica.figures(), "broker_command_seconds_count") > 0, 60, waiting_for="a broker obeyed it"
    )


def _wait_for_replicas(replicas: Sequence[Replica]) -> None:
    def are_ready() -> bool:
        seen = [replica.status() for replica in replicas]
        return all(one.get("is_ready") for one in seen) and sum(one.get("is_leader") is True for one in seen) == 1

    wait_for(lambda: are_ready() or None, "a leader and a standby", timeout_s=90)


def _ours(replicas: Sequence[Replica]) -> Kill:
    (leading,) = [replica for replica in replicas if replica.is_leading]

    def restart() -> None:
        time.sleep(RESTART_AFTER_S)
        leading.process.start()

    return Kill(leading.process.kill, restart)

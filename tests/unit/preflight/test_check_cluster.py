"""`run --check-cluster` ends, whatever ZooKeeper does meanwhile, and is no error beside the replica that it checks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from controller.commands import check_cluster, running
from controller.commands.running import Running
from controller.lab.ports import free_port
from controller.preflight.findings import Check, Finding, Gravity, Verdict, ok
from controller.preflight.looking import Preflight
from controller.preflight.own_listeners import ListenersOfRunningReplica
from controller.settings import Settings, load
from tests.unit.http.serving import LOADING, serving
from tests.unit.preflight.world import OUR_ADDRESS, Broker, World
from tests.unit.zk.simulated import Process
from zk_layout.ids import BrokerId
from zk_layout.znodes.replicas import Replica, ReplicaAddress

HERE = Running("standby since then", "this host", is_here=True)
ELSEWHERE = Running("active since then", "host-2 (127.0.0.1:9640)", is_here=False)
IN_USE = OSError(98, "address already in use")
FREE = ok(Check.BROKER_ID, "901 is free")
TAKEN = Finding(Check.BROKER_ID, Gravity.STOP, "topic a has a replica on 901")


class SilentBridge:
    """A session that was opened and gets no more answers."""

    def __init__(self, *_: Any) -> None:
        self.state = None

    async def start(self, *_: object) -> None: ...

    async def stop(self) -> None: ...

    async def get(self, _: str) -> None:
        await asyncio.Event().wait()


def test_a_look_that_does_not_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_cluster, "Bridge", SilentBridge)
    monkeypatch.setattr(check_cluster, "LOOK_WITHIN_S", 0.1)
    port = free_port()
    settings = load(None, ["zookeeper.connect=zk:2181", "broker.id=901", f"listeners=PLAINTEXT://127.0.0.1:{port}"], {})

    assert check_cluster.run(settings, is_new_cluster=False, as_json=False) == check_cluster.UNREACHABLE
    assert "did not finish within 0.1 s" in capsys.readouterr().err


def findings(found: Running | None, failure: OSError | None, before: Finding = FREE) -> dict[Check, list[str]]:
    """The gravity and the text of each finding."""
    by_check: dict[Check, list[str]] = {}
    for one in check_cluster.beside(Verdict((before,)), found, failure, BrokerId(901)):
        by_check.setdefault(one.check, []).append(f"{one.gravity}: {one.text}")
    return by_check


@pytest.mark.parametrize(
    ("found", "failure", "said"),
    [
        (None, None, {Check.BROKER_ID: "ok: 901 is free"}),
        (None, IN_USE, {Check.BROKER_ID: "ok: 901 is free", Check.ADVERTISED: "stop: cannot listen"}),
        (HERE, IN_USE, {Check.BROKER_ID: "ok: 901 is the id of this replica, which runs already: standby since then"}),
        (
            HERE,
            None,
            {
                Check.BROKER_ID: "ok: 901 is the id of this replica",
                Check.ADVERTISED: "warning: replica 901 runs on this host and does not listen where these settings say",
            },
        ),
        (
            ELSEWHERE,
            None,
            {Check.BROKER_ID: "stop: 901 is the id of a replica of this controller at host-2 (127.0.0.1:9640): active"},
        ),
        (
            ELSEWHERE,
            IN_USE,
            {Check.BROKER_ID: "stop: 901 is the id of a replica", Check.ADVERTISED: "stop: cannot listen"},
        ),
    ],
)
def test_a_replica_that_runs_is_an_error_only_if_it_is_another(
    found: Running | None, failure: OSError | None, said: Mapping[Check, str]
) -> None:
    shown = findings(found, failure)

    assert shown.keys() == said.keys()
    for check, start in said.items():
        (text,) = shown[check]
        assert text.startswith(start)


def test_an_id_that_topics_name_is_wrong_even_where_this_replica_runs() -> None:
    assert findings(HERE, IN_USE, TAKEN)[Check.BROKER_ID][0].startswith("stop: topic a has a replica on 901")


def given(*more: str) -> Settings:
    """The settings of replica 901."""
    return load(None, ["zookeeper.connect=simulated:2181", "broker.id=901", *more], {})


@pytest.mark.parametrize(
    ("host", "http", "more", "has_port", "is_here"),
    [
        ("this host", "127.0.0.1:9640", (), False, True),
        ("this host", "127.0.0.1:9640", (), True, True),
        ("this host", "127.0.0.1:9641", (), False, False),
        ("another", "127.0.0.1:9640", (), False, False),
        ("this host", "", ("http.port=0",), False, True),
        ("this host", "", ("http.port=0",), True, False),
    ],
)
def test_a_replica_is_this_one_if_host_and_http_port_are_its_own(
    host: str, http: str, more: tuple[str, ...], *, has_port: bool, is_here: bool
) -> None:
    world = World().runs(Broker())
    where = socket.gethostname() if host == "this host" else host
    world.has(Replica("standby", True, 0, http=http, host=where), ReplicaAddress(BrokerId(901)))
    process = Process(world.ensemble)

    found = process.do(running.find(process.bridge, given(*more), has_port=has_port))
    process.end()

    assert found is not None
    assert found.is_here == is_here
    assert found.state.startswith("standby since 1970-01-01")


@pytest.mark.parametrize(("own_id", "is_found"), [(900, True), (901, False)])
def test_a_replica_that_has_not_announced_itself_is_known_by_its_http_port(own_id: int, *, is_found: bool) -> None:
    async def ask() -> Running | None:
        async with serving(replace(LOADING, broker=900)) as served:
            settings = given(f"http.port={served.url.rpartition(':')[2]}", f"broker.id={own_id}")
            return await asyncio.to_thread(running.asked, settings)

    found = asyncio.run(ask())
    assert (found is not None and found.is_here) == is_found


def test_beside_the_running_replica_an_answer_at_our_address_is_enough_unless_it_is_a_brokers() -> None:
    world = World().runs(Broker())
    preflight = Preflight(
        world.wanted, world.settings.listening.advertised, world, ListenersOfRunningReplica(), wall_clock=lambda: 0.0
    )
    process = Process(world.ensemble)

    async def no_clash() -> None: ...

    sound = process.do(preflight.look(process.bridge, no_clash))
    world.is_reached = False
    unsound = process.do(preflight.look(process.bridge, no_clash))
    process.end()

    address = f"PLAINTEXT://{OUR_ADDRESS[0]}:{OUR_ADDRESS[1]}"
    assert f"a process, as it seems the replica that runs, answers at {address}" in str(sound.findings)
    assert "is not reached at" in str(unsound.stops)

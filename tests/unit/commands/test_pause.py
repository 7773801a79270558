"""What do `pause` and `resume` write, wait for, and say?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from controller.__main__ import main
from controller.commands import handover, pausing
from controller.commands.common import FAILED, OK
from controller.commands.handover import CannotSwitch
from controller.commands.pausing import Outcome
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes import replicas
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.pause import BY_HAND, Pause, PauseAddress
from zk_layout.znodes.replicas import Replica

PAUSED, CONTROLLER, OURS = PauseAddress.path, "/controller", f"{replicas.ROOT}/901"
LEADING = Replica("active", True, 1_700_000_000_000)
ANN = Pause("ann@host", 1_700_000_000_000, "new disks")
LED = (
    MakeNode("/kafka_zk_controller/replicas"),
    MakeNode(OURS, catalog.encode(LEADING)),
    MakeNode(CONTROLLER, catalog.encode(ControllerClaim(BrokerId(901), is_ours=True))),
)
BY_A_BROKER = MakeNode(CONTROLLER, catalog.encode(ControllerClaim(BrokerId(1))))


def says(*, is_paused: bool) -> Operation:
    """The leader's own znode."""
    return SetData(OURS, catalog.encode(Replica("active", True, 1_700_000_000_000, is_paused=is_paused)))


def cluster(*operations: Operation) -> tuple[Ensemble, Process]:
    """A cluster, and a session of the command."""
    ensemble = Ensemble()
    if operations:
        ensemble.write(*operations)
    return ensemble, Process(ensemble)


def held(ensemble: Ensemble) -> Any:
    """What the znode of the pause says."""
    node = ensemble.zookeeper.nodes.get(PAUSED)
    return None if node is None else catalog.decode(PauseAddress(), node.data)


def test_a_pause_is_in_force_when_the_leader_has_said_so() -> None:
    ensemble, process = cluster(*LED)
    ensemble.write_later(0.7, says(is_paused=True))

    outcome = process.do(pausing.pause(process.bridge, "new disks", timeout_s=30.0))

    assert (outcome.is_known, outcome.was_so, outcome.controller) == (True, False, 901)
    assert ensemble.clock.now > 0.7
    assert held(ensemble) == outcome.paused
    assert (outcome.paused is not None and outcome.paused.reason) == "new disks"


def test_a_second_pause_keeps_the_first() -> None:
    ensemble, process = cluster(*LED, MakeNode(PAUSED, catalog.encode(ANN)), says(is_paused=True))

    outcome = process.do(pausing.pause(process.bridge, "other disks", timeout_s=30.0))

    assert (outcome.is_known, outcome.was_so, outcome.paused, held(ensemble)) == (True, True, ANN, ANN)


@pytest.mark.parametrize(("others", "is_ours"), [(LED, True), ((BY_A_BROKER,), False), ((), False)])
def test_without_a_leader_that_knows_the_pause_stays_and_is_not_in_force(
    others: tuple[Operation, ...], *, is_ours: bool
) -> None:
    ensemble, process = cluster(*others)

    outcome = process.do(pausing.pause(process.bridge, "", timeout_s=0.0))

    assert (outcome.is_known, outcome.is_ours) == (False, is_ours)
    assert held(ensemble) == outcome.paused


def test_where_no_replica_has_ever_run_the_folder_is_made() -> None:
    ensemble, process = cluster(BY_A_BROKER)
    of_ours = [path for path in ensemble.zookeeper.nodes if path.startswith("/kafka_zk_controller")]
    ensemble.write(*(RemoveNode(path) for path in sorted(of_ours, reverse=True)))

    process.do(pausing.pause(process.bridge, "", timeout_s=0.0))

    assert isinstance(held(ensemble), Pause)


@pytest.mark.parametrize("content", [catalog.encode(ANN), b"by hand", b""])
def test_resume_ends_any_pause_and_waits_for_the_leader(content: bytes) -> None:
    ensemble, process = cluster(*LED, MakeNode(PAUSED, content), says(is_paused=True))
    ensemble.write_later(0.7, says(is_paused=False))

    outcome = process.do(pausing.resume(process.bridge, timeout_s=30.0))

    assert (outcome.is_known, outcome.was_so, outcome.paused, held(ensemble)) == (True, False, None, None)
    assert ensemble.clock.now > 0.7


def test_a_switchover_is_refused_with_the_reason_of_the_pause() -> None:
    _, process = cluster(*LED, MakeNode(PAUSED, catalog.encode(ANN)))

    with pytest.raises(CannotSwitch, match=r"moves are paused by ann@host at .*: new disks: end that with .*resume"):
        process.do(handover.switch(process.bridge, BrokerId(902), timeout_s=1.0))


@pytest.mark.parametrize(("content", "known"), [(catalog.encode(ANN), ANN), (b"{", BY_HAND), (b"", BY_HAND)])
def test_status_knows_a_pause_whatever_its_znode_holds(content: bytes, known: Pause) -> None:
    _, process = cluster(*LED, MakeNode(PAUSED, content))

    assert process.do(handover.leadership(process.bridge)).paused == known


PAUSE_OF_OURS = Outcome(ANN, was_so=False, controller=BrokerId(901), is_ours=True, is_known=True)
OVER = Outcome(None, was_so=False, controller=BrokerId(901), is_ours=True, is_known=True)


@pytest.mark.parametrize(
    ("name", "outcome", "code", "said"),
    [
        ("pause", PAUSE_OF_OURS, OK, ("Moves are paused by ann@host at ", "Replica 901 leads and begins none")),
        (
            "pause",
            Outcome(ANN, was_so=True, controller=BrokerId(901), is_ours=True, is_known=False),
            FAILED,
            ("Moves were already paused by ann@host", "has not said within 30 s"),
        ),
        (
            "pause",
            Outcome(ANN, was_so=False, controller=BrokerId(1), is_ours=False, is_known=False),
            FAILED,
            ("Broker 1 leads with Kafka's own controller, which knows nothing of a pause",),
        ),
        (
            "pause",
            Outcome(ANN, was_so=False, controller=None, is_ours=False, is_known=False),
            FAILED,
            ("No process leads now",),
        ),
        (
            "pause",
            Outcome(None, was_so=False, controller=BrokerId(901), is_ours=True, is_known=False),
            FAILED,
            ("already been ended",),
        ),
        ("resume", OVER, OK, ("The pause is over.", "Replica 901 leads and begins moves again.")),
        (
            "resume",
            Outcome(None, was_so=True, controller=BrokerId(1), is_ours=False, is_known=False),
            OK,
            ("Moves were not paused.", "Broker 1 leads; no replica of this controller had to know."),
        ),
        (
            "resume",
            Outcome(None, was_so=False, controller=BrokerId(901), is_ours=True, is_known=False),
            FAILED,
            ("Replica 901 leads, and has not said",),
        ),
        (
            "resume",
            Outcome(ANN, was_so=False, controller=BrokerId(901), is_ours=True, is_known=False),
            FAILED,
            ("paused again by ann@host",),
        ),
    ],
)
def test_the_commands_say_what_is_in_force_and_what_is_not(
    name: str, outcome: Outcome, code: int, said: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.commands.pause.at_zookeeper", lambda *_: outcome)

    answer = CliRunner().invoke(main, [name, "--zookeeper", "zk1:2181"])
    as_json = CliRunner().invoke(main, [name, "--zookeeper", "zk1:2181", "--output", "json"])

    assert (answer.exit_code, as_json.exit_code) == (code, code)
    assert all(words in answer.stdout for words in said), answer.stdout
    assert json.loads(as_json.stdout)["is_known"] is outcome.is_known


def test_a_time_that_no_clock_shows_does_not_hide_who_paused() -> None:
    assert handover.who_asked(Pause("ann@host", 10**30)) == "by ann@host at an unknown time"

"""A migration to a real KRaft quorum, forth to dual write and back, beside a replica of ours: everything is kept.

After the roll-back Kafka's own controller elects no leaders where KRaft wrote (KAFKA-20488), until ours has led.
`make nightly` runs it. It walks docs/kraft.md, with the page's own commands.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import kept
from tests.cluster.kept import LONG_S
from tests.cluster.kraft_walk import Walk, walking
from tests.cluster.replica import content, holder, wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

BACK = "Rolling back"
ELECTIONS = 8  # of the quorum: more than controllers lead before the roll-back and after it
STUCK_S = 15.0
ABORTED = "Aborted leader election for partition {}-{}"

Partition = tuple[str, int]


@pytest.fixture(params=["3.9.2", "3.6.2"])
def walk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Walk]:
    """ZooKeeper, two brokers, a replica of ours that leads, and a producer."""
    with walking(request.param, tmp_path) as walk:
        yield walk


def state(walk: Walk, partition: Partition) -> dict[str, int]:
    """A partition's state, as ZooKeeper has it."""
    topic, number = partition
    return content(walk.zk, f"/brokers/topics/{topic}/partitions/{number}/state")


def led_by(walk: Walk, broker: int) -> dict[Partition, int]:
    """The partitions that a broker leads, with the controller epochs in their states."""
    found = {}
    for topic in walk.zk.get_children("/brokers/topics"):
        for number in walk.zk.get_children(f"/brokers/topics/{topic}/partitions"):
            seen = state(walk, (topic, int(number)))
            if seen.get("leader") == broker:
                found[topic, int(number)] = seen["controller_epoch"]
    return found


def other(broker: int) -> int:
    """Of the two brokers the other one."""
    return 3 - broker


def aborted(walk: Walk, partition: Partition) -> list[str]:
    """What Kafka's own controllers have said of elections of a partition that they aborted."""
    wanted = ABORTED.format(*partition)
    logs = [broker.process.log_file.read_text() for broker in walk.cluster.brokers.values()]
    return [line for log in logs for line in log.splitlines() if wanted in line]


def changes_in_dual_write(walk: Walk) -> int:
    """Some of everything changes while KRaft leads, and a broker restarts; KRaft's epoch."""
    found = walk.is_too_early_to_finalize()
    assert found["controller-epochs"]["result"] == "warning"
    epoch = int(content(walk.zk, "/controller")["kraftControllerEpoch"])
    assert epoch > int(walk.zk.get("/controller_epoch")[0]) + 2, "KAFKA-20488 takes a quorum of many elections"

    walk.kept.change()
    walk.awaits_topics()
    walk.say(f"some of everything was changed in dual write; KRaft's epoch is {epoch}")
    walk.restart_one(1, {})  # or it would not know the new token
    walk.await_in_sync()
    walk.takes_producer_ids("in dual write")
    walk.does("In dual write", BACK)
    return epoch


def is_stuck_with_kafkas_own_controller(walk: Walk, epoch: int) -> tuple[int, Partition]:
    """While ours is frozen; the broker that died, and a partition that it led."""
    walk.quorum.kill()
    walk.ours.process.signal(signal.SIGSTOP)
    walk.does("Once the KRaft controllers are stopped", BACK)
    wait_until(lambda: holder(walk.zk) in walk.cluster.brokers, "a native controller led", LONG_S)
    native = int(walk.zk.get("/controller_epoch")[0])
    walk.say(f"rolled back: broker {holder(walk.zk)} leads with controller epoch {native}")
    assert native < epoch

    controller = int(content(walk.zk, "/controller")["brokerid"])
    leads = {broker: [p for p, at in led_by(walk, broker).items() if at == epoch] for broker in (1, 2)}
    died = other(controller) if leads[other(controller)] else controller
    stuck = leads[died][0]
    walk.cluster.brokers[died].kill()
    wait_until(lambda: aborted(walk, stuck), "the native controller aborted the election", LONG_S)
    time.sleep(STUCK_S)
    assert (state(walk, stuck)["leader"], state(walk, stuck)["controller_epoch"]) == (died, epoch)
    walk.say(f"broker {died} died; for {STUCK_S:g} s no other leader for {stuck}: {json.dumps(state(walk, stuck))}")
    walk.say(f"the log of Kafka's own controller: {aborted(walk, stuck)[0]}")
    return died, stuck


def is_repaired(walk: Walk, epoch: int, died: int, stuck: Partition) -> None:
    """Ours goes on, takes over, and elects; the brokers restart without the migration's settings."""
    offset = walk.ours.log_size()
    walk.ours.process.signal(signal.SIGCONT)
    walk.does("Within seconds", BACK)
    wait_until(lambda: state(walk, stuck)["leader"] == other(died), "ours elected a leader", LONG_S)
    wait_until(lambda: not led_by(walk, died), "ours elected leaders everywhere", LONG_S)
    ours = int(walk.zk.get("/controller_epoch")[0])
    assert ours > epoch
    errors = [record for record in walk.ours.log(offset) if record["level"] in ("error", "critical")]
    assert errors == []
    walk.say(f"this controller leads with controller epoch {ours}, and has elected everywhere")

    settings = set(walk.quorum.settings)
    for broker in (died, other(died)):
        walk.restart_one(broker, {}, *settings)
    walk.await_in_sync()
    assert walk.ours.leader()["migration"] == "none"
    walk.say("the brokers are in ZooKeeper mode, without the settings of the migration")


def is_elected_by_kafkas_own_controller(walk: Walk, stuck: Partition) -> None:
    """Ours has gone; whichever broker dies, every partition has another leader."""
    refusals = len(aborted(walk, stuck))
    walk.ours.process.stop()
    wait_until(lambda: holder(walk.zk) in walk.cluster.brokers, "a native controller led", LONG_S)
    led: set[Partition] = set()
    for broker in (2, 1):
        led |= set(led_by(walk, broker))
        dies_and_returns(walk, broker)
    assert len(aborted(walk, stuck)) == refusals
    walk.say(f"each broker has died and returned; Kafka's own controller elected for each of {len(led)} partitions")


def dies_and_returns(walk: Walk, died: int) -> None:
    """The other broker leads, with Kafka's own controller, meanwhile."""
    walk.cluster.brokers[died].kill()
    wait_until(lambda: holder(walk.zk) == other(died), "a native controller led", LONG_S)
    wait_until(lambda: not led_by(walk, died), "it elected leaders everywhere", LONG_S)
    walk.restart_one(died, {})
    walk.await_in_sync()


def test_forth_to_dual_write_and_back(walk: Walk) -> None:
    walk.goes_forth(ELECTIONS)
    epoch = changes_in_dual_write(walk)
    died, stuck = is_stuck_with_kafkas_own_controller(walk, epoch)
    is_repaired(walk, epoch, died, stuck)
    walk.takes_producer_ids("after the roll-back")
    walk.works_as_before()
    wait_until(lambda: not walk.zk.exists("/brokers/topics/late"), "the topic was deleted", LONG_S)
    walk.does("Proof", BACK)
    before, dual = (walk.host.directory / name for name in ("before", "dual"))
    assert kept.unchanged(before, dual) == set(), "of everything something has changed in dual write"
    is_elected_by_kafkas_own_controller(walk, stuck)
    walk.takes_producer_ids("from Kafka's own controller")
    assert walk.blocks == sorted(walk.blocks), "a block of producer ids was lost"
    rows = walk.has_kept_everything("before", "dual", "back")
    assert [row for row in rows if not row.is_kept] == []
    assert not {block for block in walk.guide.left if block[0] == BACK}, "every command of the chapter was run"

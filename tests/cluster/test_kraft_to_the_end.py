"""A migration to a real KRaft quorum, forth to its end, beside a replica of ours: everything is kept, nothing lost.

`make nightly` runs it. It walks docs/kraft.md, with the page's own commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kept import LONG_S
from tests.cluster.kraft_walk import FORTH, IN_KRAFT, NO_ZOOKEEPER, Walk, await_start_in_kraft, walking
from tests.cluster.replica import wait_until
from tests.cluster.test_migration_check import check

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]


@pytest.fixture(params=["3.9.2", "3.6.2"])
def walk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Walk]:
    """ZooKeeper, two brokers, a replica of ours that leads, and a producer."""
    with walking(request.param, tmp_path) as walk:
        yield walk


def changes_topics(walk: Walk) -> None:
    """A topic is born and another dies in dual write; nothing else changes, to be compared."""
    walk.is_too_early_to_finalize()
    walk.kept.run("kafka-topics", "--delete", "--topic", "doomed")
    walk.kept.run("kafka-topics", "--create", "--topic", "young", "--partitions", "3", "--replication-factor", "2")
    walk.awaits_topics()
    walk.takes_producer_ids("in dual write")
    walk.say("a topic was created and another deleted in dual write")


def leaves_zookeeper(walk: Walk) -> None:
    """The brokers, then the quorum, go without ZooKeeper; the replica stands by until it is stopped; ZooKeeper goes."""
    walk.restart(lambda number: {"process.roles": "broker", "node.id": number, **IN_KRAFT, **walk.quorum.place},
                 *NO_ZOOKEEPER)  # fmt: skip
    walk.does("To the end, once the last broker is back in KRaft mode")
    assert check(walk.cluster)[1]["finalizing"]["result"] == "ok"
    walk.say("the brokers are in KRaft mode")
    walk.quorum.finalize()
    wait_until(lambda: b"POST_MIGRATION" in walk.quorum.process.output_since_start(), "it was finalized", LONG_S)
    seen = walk.ours.leader()
    assert (seen["phase"], seen["is_leader"], seen["migration"]) == ("standby", False, "dual write")
    assert "once the migration is finalized, stop it" in str(seen["reason"])
    walk.ours.process.stop()
    assert walk.ours.process.exit_code == 0
    walk.does("Once finalized")
    walk.cluster.zookeeper.kill()
    walk.say("the quorum is finalized, and this controller and ZooKeeper have gone")


def works_without_zookeeper(walk: Walk) -> None:
    """A broker dies, another leads its partitions; it returns, and is in sync again."""
    other, died = walk.cluster.brokers.values()
    died.kill()
    wait_until(lambda: {p.leader for p in walk.partitions(other)} == {other.broker_id}, "the other one led", LONG_S)
    died.process.start()
    await_start_in_kraft(died)
    walk.await_in_sync()
    walk.say("a broker was killed and has returned, without ZooKeeper")


def test_forth_to_the_end(walk: Walk) -> None:
    walk.goes_forth()
    changes_topics(walk)
    leaves_zookeeper(walk)
    works_without_zookeeper(walk)
    walk.works_as_before()
    walk.kept.takes_producer_ids("in the end")
    walk.kept.run("kafka-topics", "--delete", "--topic", "young")
    wait_until(lambda: not walk.is_on_a_disk("young"), "its replicas were deleted", LONG_S)
    walk.does("Proof")
    rows = walk.has_kept_everything("before", "after")
    assert [row for row in rows if not row.is_kept] == []
    assert not {block for block in walk.guide.left if block[0] == FORTH}, "every command of the chapter was run"

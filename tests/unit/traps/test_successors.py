"""A topic that is gone and its successor of the same name are two topics, also where one turn sees both."""

from __future__ import annotations

import json

from controller.core.messages.commands import UpdateMetadata
from tests.simulation.zookeeper import MakeNode, RemoveNode
from tests.unit.traps.play import Play
from zk_layout.ids import TopicId

TOPIC = "/brokers/topics/orders"
STATE = f"{TOPIC}/partitions/0/state"
SUCCESSOR = TopicId("S" * 22)


def replaced() -> Play:
    """Somebody has deleted a topic and created it again before anybody looked."""
    play = Play("brokers 1,2", "topic orders 0=1", "elect")
    play.theatre.sent.clear()
    topic = {"version": 3, "topic_id": SUCCESSOR, "partitions": {"0": [2]}}
    state = {"version": 1, "controller_epoch": 1, "leader": 2, "leader_epoch": 0, "isr": [2]}
    levels = [TOPIC, f"{TOPIC}/partitions", f"{TOPIC}/partitions/0", STATE]
    contents = [json.dumps(topic).encode(), b"", b"", json.dumps(state).encode()]
    play.theatre.write(
        *(RemoveNode(path) for path in reversed(levels)),
        *(MakeNode(path, data) for path, data in zip(levels, contents, strict=True)),
    )
    return play


def test_brokers_hear_of_them_in_two_requests_the_former_first() -> None:
    """A broker notes all ids of a request before it drops partitions, and an id with the last partition of its name."""
    told = [t.command for t in replaced().theatre.sent if t.broker == 1 and isinstance(t.command, UpdateMetadata)]

    seen = [[(view.leader, view.topic_id) for view in command.partitions] for command in told]

    assert seen == [[(-2, "id-of-orders__________")], [(2, SUCCESSOR)]]

"""The language of scenarios, where clients, tools and hands write to ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.scenarios.reading import held_state, held_topic, options_of, partition_of, replicas_of, state_path
from tests.scenarios.theatre import Theatre
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicId, TopicName, TopicPartition
from zk_layout.znodes.admin import PreferredElection
from zk_layout.znodes.configs import Config
from zk_layout.znodes.notifications import ConfigChange
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment, Topic

LEGACY = "/admin/reassign_partitions"


def _topic_there(theatre: Theatre, name: str, *words: str) -> None:
    """`topic orders 0=1,2 [id=none]`: a topic that has been there, each first replica leading, all in sync."""
    partitions, topic_id = _partitions(name, words)
    path = f"/brokers/topics/{name}"
    theatre.zookeeper.make_path(path)
    theatre.zookeeper.nodes[path].data = catalog.encode(Topic(partitions, topic_id))
    for number, assignment in partitions.items():
        state = PartitionState(assignment.replicas[0], LeaderEpoch(0), ControllerEpoch(0), assignment.replicas)
        of_state = state_path(TopicPartition(TopicName(name), number))
        theatre.zookeeper.make_path(of_state)
        theatre.zookeeper.nodes[of_state].data = catalog.encode(state)


def _partitions(name: str, words: tuple[str, ...]) -> tuple[dict[PartitionId, Assignment], TopicId | None]:
    options = options_of(words)
    topic_id = options.pop("id", f"id-of-{name}".ljust(22, "_"))
    partitions = {PartitionId(int(p)): Assignment(replicas_of(r)) for p, r in options.items()}
    return partitions, None if topic_id == "none" else TopicId(topic_id)


def _create_topic(theatre: Theatre, name: str, *words: str) -> None:
    """`create topic orders 0=1,2`: what a client writes to create a topic."""
    partitions, topic_id = _partitions(name, words)
    data = catalog.encode(Topic(partitions, topic_id))
    theatre.write(MakeNode(f"/brokers/topics/{name}", data))


def _add_partition(theatre: Theatre, name: str, *words: str) -> None:
    """`add partition orders 1=2,3`: what a client writes to grow a topic."""
    added, _ = _partitions(name, words)
    topic = held_topic(theatre, name)
    grown = Topic({**topic.partitions, **added}, topic.topic_id)
    theatre.write(SetData(f"/brokers/topics/{name}", catalog.encode(grown)))


def _delete_topic(theatre: Theatre, *names: str) -> None:
    """`delete topic orders [others …]`: what a broker or an old tool writes to have topics deleted."""
    theatre.write(*(MakeNode(f"/admin/delete_topics/{name}") for name in names))


def _write_state(theatre: Theatre, partition: str, *words: str) -> None:
    """`state orders-0 leader=1 isr=1,2 leader_epoch=3 controller_epoch=5`: before an election, what the znode holds."""
    at, options = partition_of(partition), options_of(words)
    held, _ = held_state(theatre, at)
    state = PartitionState(
        BrokerId(int(options.get("leader", held.leader))),
        LeaderEpoch(int(options.get("leader_epoch", held.leader_epoch))),
        ControllerEpoch(int(options.get("controller_epoch", held.controller_epoch))),
        replicas_of(options["isr"]) if "isr" in options else held.isr,
    )
    theatre.write(SetData(state_path(at), catalog.encode(state)))


def _config(theatre: Theatre, topic: str, *words: str) -> None:
    """`config orders unclean.leader.election.enable=true`: as kafka-configs writes it; `<default>` is all brokers."""
    is_brokers = topic == "<default>" or topic.isdigit()
    entity = f"brokers/{topic}" if is_brokers else f"topics/{topic}"
    path = f"/config/{entity}"
    data = catalog.encode(Config(options_of(words)))
    exists = path in theatre.zookeeper.nodes
    theatre.write(SetData(path, data) if exists else MakeNode(path, data))
    number = sum(node.startswith("/config/changes/") for node in theatre.zookeeper.nodes)
    notification = MakeNode(f"/config/changes/config_change_{number:010}", catalog.encode(ConfigChange(entity)))
    theatre.write(notification)


def _malformed(theatre: Theatre, path: str, *junk: str) -> None:
    """`malformed /path [bytes]`: someone writes what does not belong there."""
    data = (" ".join(junk) or "{not json").encode()
    exists = path in theatre.zookeeper.nodes
    theatre.write(SetData(path, data) if exists else MakeNode(path, data))


def _remove(theatre: Theatre, path: str) -> None:
    """`remove /path`: someone deletes a znode."""
    theatre.write(RemoveNode(path))


def _legacy(theatre: Theatre, *words: str) -> None:
    """`legacy orders-0=3,4 orders-1=1`: an old tool writes the znode."""
    entries = [
        {"topic": partition_of(p).topic, "partition": partition_of(p).partition, "replicas": replicas_of(r)}
        for p, r in options_of(words).items()
    ]
    theatre.write(MakeNode(LEGACY, json.dumps({"version": 1, "partitions": entries}).encode()))


def _prefer(theatre: Theatre, *partitions: str) -> None:
    """`prefer orders-0 orders-1`: an old tool asks for preferred leaders."""
    election = PreferredElection(tuple(partition_of(p) for p in partitions))
    theatre.write(MakeNode("/admin/preferred_replica_election", catalog.encode(election)))


def _znode(theatre: Theatre, path: str, *data: str) -> None:
    """`znode /path [data]`: someone else writes a znode, as it should be."""
    content = " ".join(data).encode()
    theatre.write(SetData(path, content) if path in theatre.zookeeper.nodes else MakeNode(path, content))


def _token(theatre: Theatre, name: str, *words: str) -> None:
    """`token laptop expires=60 most=600`: a broker writes a delegation token, or renews it; in seconds."""
    times = {kind: int(seconds) * 1000 for kind, seconds in options_of(words).items()}
    token = {"version": 1, "owner": "User:somebody", "tokenId": name, "issueTimestamp": 0}
    token |= {"expiryTimestamp": times["expires"], "maxTimestamp": times["most"]}
    _znode(theatre, f"/delegation_token/tokens/{name}", json.dumps(token))


ZNODE_COMMANDS: dict[str, Callable[..., None]] = {
    "topic": _topic_there,
    "create topic": _create_topic,
    "add partition": _add_partition,
    "delete topic": _delete_topic,
    "state": _write_state,
    "config": _config,
    "malformed": _malformed,
    "remove": _remove,
    "legacy": _legacy,
    "prefer": _prefer,
    "znode": _znode,
    "token": _token,
}

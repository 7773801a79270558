"""The language of scenarios: what does each command line do?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_type_hints

from msgspec import convert

from controller.core.acls.numbers import OPERATIONS, PERMISSIONS, RESOURCE_TYPES
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import ReplicaSize
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    AlterScramCredentials,
    Caller,
    ControlledShutdown,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeCluster,
    FeatureUpdate,
    IsrProposal,
    ListReassignments,
    Mode,
    PartitionReassignment,
    ScramDeletion,
    ScramUpsertion,
    TopicReference,
    UpdateFeatures,
)
from controller.core.settings import AuthorizerSettings, MachineSettings
from tests.scenarios.theatre import Theatre
from tests.scenarios.topic_commands import TOPIC_COMMANDS, reference
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    RequestId,
    TopicId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.acls import CHANGES, FOLDERS
from zk_layout.znodes.admin import PreferredElection
from zk_layout.znodes.configs import Config
from zk_layout.znodes.notifications import ConfigChange, IsrChange, LogDirEvent
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.quotas import QuotaEntity
from zk_layout.znodes.throttles import FOLLOWER_RATE
from zk_layout.znodes.topics import Assignment, Topic

LEGACY = "/admin/reassign_partitions"


def obey(theatre: Theatre, line: str) -> None:
    """Carry out one command line."""
    for words in (3, 2, 1):
        name, arguments = " ".join(line.split(" ")[:words]), line.split(" ")[words:]
        if name in _COMMANDS:
            _COMMANDS[name](theatre, *arguments)
            return
        if line.startswith("broker ") and words == 3:
            _broker(theatre, BrokerId(int(line.split(" ")[1])), line.split(" ")[2])
            return
    raise ValueError(f"unknown command: {line}")


def _replicas(text: str) -> Replicas:
    return tuple(BrokerId(int(r)) for r in text.split(",") if r)


def _at(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(TopicName(topic), PartitionId(int(partition)))


def _options(words: tuple[str, ...]) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in words if "=" in word)


def _state_path(at: TopicPartition) -> str:
    return f"/brokers/topics/{at.topic}/partitions/{at.partition}/state"


def _state(theatre: Theatre, at: TopicPartition) -> tuple[PartitionState, int]:
    node = theatre.zookeeper.nodes[_state_path(at)]
    address = catalog.address_of(_state_path(at))
    assert address is not None
    value = catalog.decode(address, node.data)
    assert isinstance(value, PartitionState)
    return value, node.version


def _topic(theatre: Theatre, name: str) -> Topic:
    path = f"/brokers/topics/{name}"
    address = catalog.address_of(path)
    assert address is not None
    value = catalog.decode(address, theatre.zookeeper.nodes[path].data)
    assert isinstance(value, Topic)
    return value


# the cluster


def _set(theatre: Theatre, *words: str) -> None:
    """`set unclean_election=true`: settings of the machines elected from now on."""
    theatre.settings.update(_settings(words))


def _adjust(theatre: Theatre, *words: str) -> None:
    """`adjust unclean_election=true`: the operator changes these settings while the term goes on."""
    theatre.adjust(_settings(words))


def _settings(words: tuple[str, ...]) -> dict[str, Any]:
    kinds = get_type_hints(MachineSettings)
    return {name: convert(json.loads(value), kinds[name]) for name, value in _options(words).items()}


def _brokers(theatre: Theatre, brokers: str, *words: str) -> None:
    """`brokers 1,2,3 [rack=west]`: these are there."""
    for broker in _replicas(brokers):
        if rack := _options(words).get("rack"):
            theatre.racks[broker] = rack
        theatre.register(broker)
    theatre.run()


def _controllers(theatre: Theatre, controllers: str) -> None:
    """`controllers 101`: another replica of ours is registered; `broker 101 dies` is its end, too."""
    for controller in _replicas(controllers):
        theatre.register(controller, is_ours=True)
    theatre.run()


def _broker(theatre: Theatre, broker: BrokerId, verb: str) -> None:
    """`broker 3 dies|returns|bounces|hangs|goes-on`."""
    match verb:
        case "dies":
            theatre.zookeeper.close_session(theatre.brokers.pop(broker))
        case "returns":
            theatre.register(broker)
        case "bounces":
            theatre.known_epochs.pop(broker, None)
            theatre.zookeeper.close_session(theatre.brokers.pop(broker))
            theatre.register(broker)
        case "hangs":
            theatre.mute[broker] = None
        case "goes-on":
            del theatre.mute[broker]
        case _:
            raise ValueError(f"a broker cannot {verb}")
    theatre.run()


def _disk(theatre: Theatre, broker: str, verb: str, *partitions: str) -> None:
    """`disk 2 fails orders-0 …`, and `disk 2 works`: a log directory of a broker, with these replicas in it."""
    owner = BrokerId(int(broker))
    match verb:
        case "fails":
            theatre.bad_disks[owner] = frozenset(map(_at, partitions))
            event = catalog.encode(LogDirEvent(owner))
            theatre.write(MakeNode("/log_dir_event_notification/log_dir_event_", event, is_sequential=True))
        case "works":
            del theatre.bad_disks[owner]
        case _:
            raise ValueError(f"a disk cannot {verb}")


def _knows(theatre: Theatre, brokers: str, epoch: str) -> None:
    """`know epoch 1,3 7`: these brokers remember a controller epoch, as of a time that ZooKeeper has forgotten."""
    theatre.known_epochs.update(dict.fromkeys(_replicas(brokers), ControllerEpoch(int(epoch))))


def _refuses(theatre: Theatre, command: str, error: str, at: str = "") -> None:
    """`next refusal LeaderAndIsr STALE_BROKER_EPOCH [orders-0]`: the next such command is refused, or a part of it."""
    theatre.refusals[command] = ErrorCode[error], _at(at) if at else None


def _has_no_log(theatre: Theatre, broker: str, at: str, epoch: str) -> None:
    """`no log 2 orders-0 0`: a broker noted this leader epoch, could not make the log, and refuses what gives it."""
    theatre.without_log[BrokerId(int(broker)), _at(at)] = LeaderEpoch(int(epoch))


def _topic_there(theatre: Theatre, name: str, *words: str) -> None:
    """`topic orders 0=1,2 [id=none]`: a topic that has been there, each first replica leading, all in sync."""
    partitions, topic_id = _partitions(name, words)
    path = f"/brokers/topics/{name}"
    theatre.zookeeper.make_path(path)
    theatre.zookeeper.nodes[path].data = catalog.encode(Topic(partitions, topic_id))
    for number, assignment in partitions.items():
        state = PartitionState(assignment.replicas[0], LeaderEpoch(0), ControllerEpoch(0), assignment.replicas)
        state_path = _state_path(TopicPartition(TopicName(name), number))
        theatre.zookeeper.make_path(state_path)
        theatre.zookeeper.nodes[state_path].data = catalog.encode(state)


def _partitions(name: str, words: tuple[str, ...]) -> tuple[dict[PartitionId, Assignment], TopicId | None]:
    options = _options(words)
    topic_id = options.pop("id", f"id-of-{name}".ljust(22, "_"))
    partitions = {PartitionId(int(p)): Assignment(_replicas(r)) for p, r in options.items()}
    return partitions, None if topic_id == "none" else TopicId(topic_id)


def _create_topic(theatre: Theatre, name: str, *words: str) -> None:
    """`create topic orders 0=1,2`: what a client writes to create a topic."""
    partitions, topic_id = _partitions(name, words)
    data = catalog.encode(Topic(partitions, topic_id))
    theatre.write(MakeNode(f"/brokers/topics/{name}", data))


def _add_partition(theatre: Theatre, name: str, *words: str) -> None:
    """`add partition orders 1=2,3`: what a client writes to grow a topic."""
    added, _ = _partitions(name, words)
    topic = _topic(theatre, name)
    grown = Topic({**topic.partitions, **added}, topic.topic_id)
    theatre.write(SetData(f"/brokers/topics/{name}", catalog.encode(grown)))


def _delete_topic(theatre: Theatre, *names: str) -> None:
    """`delete topic orders [others …]`: what a broker or an old tool writes to have topics deleted."""
    theatre.write(*(MakeNode(f"/admin/delete_topics/{name}") for name in names))


def _write_state(theatre: Theatre, partition: str, *words: str) -> None:
    """`state orders-0 leader=1 isr=1,2 leader_epoch=3 controller_epoch=5`: before an election, what the znode holds."""
    at, options = _at(partition), _options(words)
    held, _ = _state(theatre, at)
    state = PartitionState(
        BrokerId(int(options.get("leader", held.leader))),
        LeaderEpoch(int(options.get("leader_epoch", held.leader_epoch))),
        ControllerEpoch(int(options.get("controller_epoch", held.controller_epoch))),
        _replicas(options["isr"]) if "isr" in options else held.isr,
    )
    theatre.write(SetData(_state_path(at), catalog.encode(state)))


def _config(theatre: Theatre, topic: str, *words: str) -> None:
    """`config orders unclean.leader.election.enable=true`: as kafka-configs writes it; `<default>` is all brokers."""
    is_brokers = topic == "<default>" or topic.isdigit()
    entity = f"brokers/{topic}" if is_brokers else f"topics/{topic}"
    path = f"/config/{entity}"
    data = catalog.encode(Config(_options(words)))
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


# the controller


def _elect(theatre: Theatre, own_id: str = "100") -> None:
    """`elect [101]`: a controller begins its term, whatever its id; also what follows after a crash."""
    theatre.own_id = BrokerId(int(own_id))
    theatre.elect()


def _trouble(kind: str) -> Callable[..., None]:
    def arm(theatre: Theatre, *words: str) -> None:
        theatre.trouble.append(f"{kind} {' '.join(words)}".strip())

    return arm


def _crash_after(theatre: Theatre, number: str) -> None:
    """`crash after-commit 2`: the controller dies when ZooKeeper has accepted its second transaction from now."""
    theatre.trouble.extend([""] * (int(number) - 1) + ["crash"])


def _time(theatre: Theatre, seconds: str) -> None:
    """`time +10s`."""
    theatre.wait(float(seconds.strip("+s")))


def _servers_take(theatre: Theatre, size_bytes: str) -> None:
    """`servers take 500`: ZooKeeper hangs up on a larger request, whatever the controller's setting says."""
    theatre.zookeeper.frame_limit = int(size_bytes)


# requests


def _ask_reassign(mode: Mode) -> Callable[..., None]:
    """`ask reassign [throttle=5000000] [reason=disks] [give_up_ms=60000] orders-0 to=3,4 …`, also `ask forced …`.

    `to=3,4*7` gives the move the weight 7.
    """

    def ask(theatre: Theatre, *words: str) -> None:
        reassignments, throttle, reason, give_up_ms = [], None, None, None
        if words[0].startswith("throttle="):
            throttle, words = int(words[0].removeprefix("throttle=")), words[1:]
        if words[0].startswith("reason="):
            reason, words = words[0].removeprefix("reason="), words[1:]
        if words[0].startswith("give_up_ms="):
            give_up_ms, words = int(words[0].removeprefix("give_up_ms=")), words[1:]
        for partition, target in zip(words[::2], words[1::2], strict=True):
            replicas, _, weight = target.removeprefix("to=").partition("*")
            reassignments.append(PartitionReassignment(_at(partition), _replicas(replicas), int(weight or 0)))
        theatre.ask(
            AlterReassignments(tuple(reassignments), mode, throttle=throttle, reason=reason, give_up_ms=give_up_ms)
        )

    return ask


def _ask_cancel(mode: Mode) -> Callable[..., None]:
    """`ask cancel orders-0 orders-1`, also `ask gentle cancel …` and `ask forced cancel …`."""

    def ask(theatre: Theatre, *partitions: str) -> None:
        theatre.ask(AlterReassignments(tuple(PartitionReassignment(_at(p), None) for p in partitions), mode))

    return ask


def _as(theatre: Theatre, user: str, client: str = "") -> None:
    """`as ann [tool]`: this user, with this client id, makes the requests that follow."""
    theatre.caller = Caller("PLAINTEXT", "127.0.0.1", client, f"User:{user}")


def _quota(theatre: Theatre, *words: str) -> None:
    """`quota user=ann client=<default> rate=2`: how many partitions they may change in a second; without: any."""
    given = dict(word.split("=", 1) for word in words)
    rate = float(given["rate"]) if "rate" in given else None
    theatre.limit(QuotaEntity(given.get("user"), given.get("client")), rate)


def _forbid(theatre: Theatre, *operations: str) -> None:
    """`forbid Alter Describe:orders`: no one has the right to this operation, or to this one on a topic."""
    theatre.forbidden.update(operations)


def _ask_cancel_and_set(theatre: Theatre, _set: str, *words: str) -> None:
    """`ask cancel and set orders-0 to=none orders-1 to=3,4`: both in one request."""
    reassignments = []
    for partition, target in zip(words[::2], words[1::2], strict=True):
        reassignments.append(
            PartitionReassignment(
                _at(partition), None if target == "to=none" else _replicas(target.removeprefix("to="))
            )
        )
    theatre.ask(AlterReassignments(tuple(reassignments)))


def _ask_list(theatre: Theatre, *partitions: str) -> None:
    """`ask list [orders-0 …]`: what moves, of all or of these."""
    theatre.ask(ListReassignments(tuple(map(_at, partitions)) or None))


def _ask_status(theatre: Theatre, request: str) -> None:
    """`ask status 1`: how far a request is."""
    theatre.ask(ListReassignments((), RequestId(int(request))))


def _shown(theatre: Theatre, broker: str, rate: str = "") -> None:
    """`shown 3 5`: whatever is written, a broker shows this throttled rate; without one, none; `written`: as before."""
    shown = {FOLLOWER_RATE: rate} if rate else {}
    theatre.shown[BrokerId(int(broker))] = shown
    if rate == "written":
        del theatre.shown[BrokerId(int(broker))]


def _sizes(theatre: Theatre, partition: str, *words: str) -> None:
    """`sizes orders-0 1=4000000 3=1000000`: how many bytes of it lie on the brokers' disks."""
    for broker, size in _options(words).items():
        theatre.sizes.setdefault(BrokerId(int(broker)), {})[_at(partition)] = ReplicaSize(int(size))


def _ask_metadata(theatre: Theatre, *topics: str) -> None:
    """`ask metadata [orders id:AAECAwQFBgcICQoLDA0ODw …] [operations]`: of all topics or of these."""
    named = tuple(reference(topic) for topic in topics if topic != "operations")
    told = "operations" in topics
    theatre.ask(DescribeCluster(named or None, with_cluster_operations=told, with_topic_operations=told))


def _ask_cluster(theatre: Theatre, *endpoint_type: str) -> None:
    """`ask cluster [2]`: who its brokers are (1) or its controllers (2)."""
    theatre.ask(DescribeCluster((), endpoint_type=int(*endpoint_type or "1")))


def _isr(theatre: Theatre, partition: str, isr: str, *words: str) -> None:
    """`isr orders-0 1,2,3 [broker= broker_epoch= leader_epoch= partition_epoch= by=id]`: its leader asks."""
    at, options = _at(partition), _options(words)
    state, version = _state(theatre, at) if _state_path(at) in theatre.zookeeper.nodes else (None, 0)
    leader = BrokerId(int(options.get("broker", state.leader if state else 1)))
    topic = TopicReference(name=at.topic)
    if "by" in options:
        topic = TopicReference(topic_id=TopicId(options["by"]))
    proposal = IsrProposal(
        topic,
        at.partition,
        LeaderEpoch(int(options.get("leader_epoch", state.leader_epoch if state else 0))),
        PartitionEpoch(int(options.get("partition_epoch", version))),
        _replicas(isr),
        tuple(BrokerEpoch(int(e)) for e in options["epochs"].split(",")) if "epochs" in options else (),
        int(options.get("recovering", 0)),
    )
    epoch = options.get("broker_epoch")
    broker_epoch = theatre.epoch_of(leader) if epoch is None else BrokerEpoch(int(epoch))
    theatre.ask(AlterPartition(leader, broker_epoch, (proposal,), names_topics_by_id="by" in options))


def _leader_writes(theatre: Theatre, partition: str, isr: str) -> None:
    """`leader writes orders-0 1,2,3`: an old leader writes its ISR into the state znode."""
    at = _at(partition)
    state, version = _state(theatre, at)
    written = PartitionState(state.leader, state.leader_epoch, state.controller_epoch, _replicas(isr))
    theatre.write(SetData(_state_path(at), catalog.encode(written), version))


def _notify(theatre: Theatre, *partitions: str) -> None:
    """`notify orders-0 orders-1`: an old leader tells of the ISRs it wrote."""
    change = IsrChange(tuple(_at(p) for p in partitions))
    path = "/isr_change_notification/isr_change_"
    theatre.write(MakeNode(path, catalog.encode(change), is_sequential=True))


def _legacy(theatre: Theatre, *words: str) -> None:
    """`legacy orders-0=3,4 orders-1=1`: an old tool writes the znode."""
    entries = [
        {"topic": _at(p).topic, "partition": _at(p).partition, "replicas": _replicas(r)}
        for p, r in _options(words).items()
    ]
    theatre.write(MakeNode(LEGACY, json.dumps({"version": 1, "partitions": entries}).encode()))


def _prefer(theatre: Theatre, *partitions: str) -> None:
    """`prefer orders-0 orders-1`: an old tool asks for preferred leaders."""
    election = PreferredElection(tuple(_at(p) for p in partitions))
    theatre.write(MakeNode("/admin/preferred_replica_election", catalog.encode(election)))


def _shutdown(theatre: Theatre, broker: str, *words: str) -> None:
    """`shutdown 2 [broker_epoch=]`: a broker asks to leave."""
    epoch = _options(words).get("broker_epoch")
    broker_id = BrokerId(int(broker))
    broker_epoch = theatre.epoch_of(broker_id) if epoch is None else BrokerEpoch(int(epoch))
    theatre.ask(ControlledShutdown(broker_id, broker_epoch))


def _producer_ids(theatre: Theatre, broker: str, *words: str) -> None:
    """`producer ids 2 [broker_epoch=]`: a broker has used up its block."""
    epoch = _options(words).get("broker_epoch")
    broker_id = BrokerId(int(broker))
    broker_epoch = theatre.epoch_of(broker_id) if epoch is None else BrokerEpoch(int(epoch))
    theatre.ask(AllocateProducerIds(broker_id, broker_epoch))


def _scram(theatre: Theatre, *words: str) -> None:
    """`ask scram ann:256=4096:secret -bob:512`: credentials with so many iterations are set, others deleted."""
    upsertions, deletions = [], []
    for word in words:
        key, _, value = word.partition("=")
        user, _, bits = key.rpartition(":")
        mechanism = {"256": 1, "512": 2}.get(bits, 0)
        if not value:
            deletions.append(ScramDeletion(user.removeprefix("-"), mechanism))
            continue
        iterations, _, credential = value.partition(":")
        upsertions.append(ScramUpsertion(user, mechanism, int(iterations), credential))
    theatre.ask(AlterScramCredentials(tuple(upsertions), tuple(deletions)))


def _acl(text: str) -> AclCreation:
    """`Topic:orders=Allow/User:ann/Read`, `Topic:ord*`, `12:x`: the type and the operation may be Kafka's numbers."""
    resource, _, entry = text.partition("=")
    kind, _, name = resource.partition(":")
    permission, principal, operation = entry.split("/")
    is_prefixed = name.endswith("*") and name != "*"
    return AclCreation(
        _number(kind, {t.value: n for n, t in RESOURCE_TYPES.items()}),
        name.removesuffix("*") if is_prefixed else name.replace("%", "/"),
        4 if is_prefixed else 3,
        principal,
        "*",
        _number(operation, {o.value: n for n, o in OPERATIONS.items()}),
        _number(permission, {p.value: n for n, p in PERMISSIONS.items()}),
    )


def _number(text: str, known: dict[str, int]) -> int:
    return int(text) if text.isdigit() else known[text]


def _create_acls(theatre: Theatre, *words: str) -> None:
    """`ask create acls Topic:orders=Allow/User:ann/Read`."""
    theatre.ask(CreateAcls(tuple(map(_acl, words))))


def _acl_filter(text: str) -> AclFilter:
    """`type=Topic,name=orders,pattern=2,principal=User:ann,operation=Read,permission=Allow`; each may be left out."""
    wanted = dict(part.partition("=")[::2] for part in text.split(",") if "=" in part)
    return AclFilter(
        _number(wanted.get("type", "1"), {t.value: n for n, t in RESOURCE_TYPES.items()}),
        wanted.get("name"),
        int(wanted.get("pattern", "1")),
        wanted.get("principal"),
        wanted.get("host"),
        _number(wanted.get("operation", "1"), {o.value: n for n, o in OPERATIONS.items()}),
        _number(wanted.get("permission", "1"), {p.value: n for n, p in PERMISSIONS.items()}),
    )


def _delete_acls(theatre: Theatre, *words: str) -> None:
    """`ask delete acls type=Topic,name=orders all`: one filter a word."""
    theatre.ask(DeleteAcls(tuple(map(_acl_filter, words))))


def _describe_acls(theatre: Theatre, word: str = "all") -> None:
    """`ask describe acls type=Topic`."""
    theatre.ask(DescribeAcls(_acl_filter(word)))


def _authorizer(theatre: Theatre) -> None:
    """`authorizer`: from the next election on there is one; brokers with one have made its folders."""
    for path in (*FOLDERS, *CHANGES.values()):
        theatre.zookeeper.make_path(path)
    theatre.settings["authorizer"] = AuthorizerSettings()


def _features(theatre: Theatre, *words: str) -> None:
    """`ask features transactions=0/2`: a level, and 1 to raise it, 2 or 3 to lower it."""
    updates = []
    for feature, wanted in _options(words).items():
        level, _, kind = wanted.partition("/")
        updates.append(FeatureUpdate(feature, int(level), int(kind)))
    theatre.ask(UpdateFeatures(tuple(updates)))


def _znode(theatre: Theatre, path: str, *data: str) -> None:
    """`znode /path [data]`: someone else writes a znode, as it should be."""
    content = " ".join(data).encode()
    theatre.write(SetData(path, content) if path in theatre.zookeeper.nodes else MakeNode(path, content))


def _token(theatre: Theatre, name: str, *words: str) -> None:
    """`token laptop expires=60 most=600`: a broker writes a delegation token, or renews it; in seconds."""
    times = {kind: int(seconds) * 1000 for kind, seconds in _options(words).items()}
    token = {"version": 1, "owner": "User:somebody", "tokenId": name, "issueTimestamp": 0}
    token |= {"expiryTimestamp": times["expires"], "maxTimestamp": times["most"]}
    _znode(theatre, f"/delegation_token/tokens/{name}", json.dumps(token))


_COMMANDS: dict[str, Callable[..., None]] = {
    "set": _set,
    "adjust": _adjust,
    "brokers": _brokers,
    "controllers": _controllers,
    "next refusal": _refuses,
    "know epoch": _knows,
    "no log": _has_no_log,
    "topic": _topic_there,
    "create topic": _create_topic,
    "add partition": _add_partition,
    "delete topic": _delete_topic,
    "state": _write_state,
    "config": _config,
    "malformed": _malformed,
    "remove": _remove,
    "elect": _elect,
    "conflict": _trouble("conflict"),
    "remove at once": _trouble("remove-at-once"),
    "lose reply": _trouble("lose-reply"),
    "lose request": _trouble("lose-request"),
    "crash after-commit": _crash_after,
    "time": _time,
    "servers take": _servers_take,
    "refuse": lambda theatre, path: theatre.refused.add(path),
    "allow": lambda theatre, path: theatre.refused.discard(path),
    "hold request": _trouble("hold-request"),
    "hold reply": _trouble("hold-reply"),
    "reply": lambda theatre: theatre.reply(),
    "disk": _disk,
    "forbid": _forbid,
    "as": _as,
    "quota": _quota,
    "ask reassign": _ask_reassign(Mode.SAFE),
    "ask forced reassign": _ask_reassign(Mode.FORCED),
    "ask cancel and": _ask_cancel_and_set,
    "ask cancel": _ask_cancel(Mode.SAFE),
    "ask gentle cancel": _ask_cancel(Mode.GENTLE),
    "ask forced cancel": _ask_cancel(Mode.FORCED),
    "ask list": _ask_list,
    "ask status": _ask_status,
    "shown": _shown,
    "sizes": _sizes,
    "ask metadata": _ask_metadata,
    "ask cluster": _ask_cluster,
    "isr": _isr,
    "leader writes": _leader_writes,
    "notify": _notify,
    "legacy": _legacy,
    "prefer": _prefer,
    "shutdown": _shutdown,
    "producer ids": _producer_ids,
    "ask scram": _scram,
    "ask features": _features,
    "ask create acls": _create_acls,
    "ask delete acls": _delete_acls,
    "ask describe acls": _describe_acls,
    "authorizer": _authorizer,
    "znode": _znode,
    "token": _token,
    **TOPIC_COMMANDS,
}

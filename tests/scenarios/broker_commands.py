"""The language of scenarios, where brokers act: they come and go, answer, and ask."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Directory, ReplicaSize
from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    ControlledShutdown,
    IsrProposal,
    TopicReference,
)
from tests.scenarios.reading import held_state, options_of, partition_of, replicas_of, state_path
from tests.scenarios.theatre import Theatre
from tests.simulation.zookeeper import MakeNode, SetData
from zk_layout import catalog
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from zk_layout.znodes.notifications import IsrChange, LogDirEvent
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.throttles import FOLLOWER_RATE


def _brokers(theatre: Theatre, brokers: str, *words: str) -> None:
    """`brokers 1,2,3 [rack=west]`: these are there."""
    for broker in replicas_of(brokers):
        if rack := options_of(words).get("rack"):
            theatre.racks[broker] = rack
        theatre.register(broker)
    theatre.run()


def _controllers(theatre: Theatre, controllers: str) -> None:
    """`controllers 101`: another replica of ours is registered; `broker 101 dies` is its end, too."""
    for controller in replicas_of(controllers):
        theatre.register(controller, is_ours=True)
    theatre.run()


def broker_does(theatre: Theatre, broker: BrokerId, verb: str) -> None:
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
            theatre.bad_disks[owner] = frozenset(map(partition_of, partitions))
            event = catalog.encode(LogDirEvent(owner))
            theatre.write(MakeNode("/log_dir_event_notification/log_dir_event_", event, is_sequential=True))
        case "works":
            del theatre.bad_disks[owner]
        case _:
            raise ValueError(f"a disk cannot {verb}")


def _knows(theatre: Theatre, brokers: str, epoch: str) -> None:
    """`know epoch 1,3 7`: these brokers remember a controller epoch, as of a time that ZooKeeper has forgotten."""
    theatre.known_epochs.update(dict.fromkeys(replicas_of(brokers), ControllerEpoch(int(epoch))))


def _refuses(theatre: Theatre, command: str, error: str, at: str = "") -> None:
    """`next refusal LeaderAndIsr STALE_BROKER_EPOCH [orders-0]`: the next such command is refused, or a part of it."""
    theatre.refusals[command] = ErrorCode[error], partition_of(at) if at else None


def _has_no_log(theatre: Theatre, broker: str, at: str, epoch: str) -> None:
    """`no log 2 orders-0 0`: a broker noted this leader epoch, could not make the log, and refuses what gives it."""
    theatre.without_log[BrokerId(int(broker)), partition_of(at)] = LeaderEpoch(int(epoch))


def _shown(theatre: Theatre, broker: str, rate: str = "") -> None:
    """`shown 3 5`: whatever is written, a broker shows this throttled rate; without one, none; `written`: as before."""
    shown = {FOLLOWER_RATE: rate} if rate else {}
    theatre.shown[BrokerId(int(broker))] = shown
    if rate == "written":
        del theatre.shown[BrokerId(int(broker))]


def _sizes(theatre: Theatre, partition: str, *words: str) -> None:
    """`sizes orders-0 1=4000000 3=1000000`: how many bytes of it lie on the brokers' disks."""
    for broker, size in options_of(words).items():
        theatre.sizes.setdefault(BrokerId(int(broker)), {})[partition_of(partition)] = ReplicaSize(int(size))


def _disks(theatre: Theatre, broker: str, *words: str) -> None:
    """`disks 3 /a=1000000/200000`: how many bytes a log directory's volume has, and how many are usable; none at all if
    the broker is too old to tell it."""
    sizes = {path: room.split("/") for path, room in options_of(words).items()}
    theatre.disks.pop(BrokerId(int(broker)), None)
    if sizes:
        held = (Directory(path, int(total), int(usable)) for path, (total, usable) in sizes.items())
        theatre.disks[BrokerId(int(broker))] = tuple(held)


def _ends(theatre: Theatre, partition: str, *words: str) -> None:
    """`ends orders-0 1=4000 2=3000`: at which offsets its logs end on these brokers."""
    for broker, end in options_of(words).items():
        theatre.ends.setdefault(BrokerId(int(broker)), {})[partition_of(partition)] = int(end)


def _isr(theatre: Theatre, partition: str, isr: str, *words: str) -> None:
    """`isr orders-0 1,2,3 [broker= broker_epoch= leader_epoch= partition_epoch= by=id]`: its leader asks."""
    at, options = partition_of(partition), options_of(words)
    state, version = held_state(theatre, at) if state_path(at) in theatre.zookeeper.nodes else (None, 0)
    leader = BrokerId(int(options.get("broker", state.leader if state else 1)))
    topic = TopicReference(name=at.topic)
    if "by" in options:
        topic = TopicReference(topic_id=TopicId(options["by"]))
    proposal = IsrProposal(
        topic,
        at.partition,
        LeaderEpoch(int(options.get("leader_epoch", state.leader_epoch if state else 0))),
        PartitionEpoch(int(options.get("partition_epoch", version))),
        replicas_of(isr),
        tuple(BrokerEpoch(int(e)) for e in options["epochs"].split(",")) if "epochs" in options else (),
        int(options.get("recovering", 0)),
    )
    epoch = options.get("broker_epoch")
    broker_epoch = theatre.epoch_of(leader) if epoch is None else BrokerEpoch(int(epoch))
    theatre.ask(AlterPartition(leader, broker_epoch, (proposal,), names_topics_by_id="by" in options))


def _leader_writes(theatre: Theatre, partition: str, isr: str) -> None:
    """`leader writes orders-0 1,2,3`: an old leader writes its ISR into the state znode."""
    at = partition_of(partition)
    state, version = held_state(theatre, at)
    written = PartitionState(state.leader, state.leader_epoch, state.controller_epoch, replicas_of(isr))
    theatre.write(SetData(state_path(at), catalog.encode(written), version))


def _notify(theatre: Theatre, *partitions: str) -> None:
    """`notify orders-0 orders-1`: an old leader tells of the ISRs it wrote."""
    change = IsrChange(tuple(partition_of(p) for p in partitions))
    path = "/isr_change_notification/isr_change_"
    theatre.write(MakeNode(path, catalog.encode(change), is_sequential=True))


def _shutdown(theatre: Theatre, broker: str, *words: str) -> None:
    """`shutdown 2 [broker_epoch=]`: a broker asks to leave."""
    epoch = options_of(words).get("broker_epoch")
    broker_id = BrokerId(int(broker))
    broker_epoch = theatre.epoch_of(broker_id) if epoch is None else BrokerEpoch(int(epoch))
    theatre.ask(ControlledShutdown(broker_id, broker_epoch))


def _producer_ids(theatre: Theatre, broker: str, *words: str) -> None:
    """`producer ids 2 [broker_epoch=]`: a broker has used up its block."""
    epoch = options_of(words).get("broker_epoch")
    broker_id = BrokerId(int(broker))
    broker_epoch = theatre.epoch_of(broker_id) if epoch is None else BrokerEpoch(int(epoch))
    theatre.ask(AllocateProducerIds(broker_id, broker_epoch))


BROKER_COMMANDS: dict[str, Callable[..., None]] = {
    "brokers": _brokers,
    "controllers": _controllers,
    "next refusal": _refuses,
    "know epoch": _knows,
    "no log": _has_no_log,
    "disk": _disk,
    "shown": _shown,
    "sizes": _sizes,
    "disks": _disks,
    "ends": _ends,
    "isr": _isr,
    "leader writes": _leader_writes,
    "notify": _notify,
    "shutdown": _shutdown,
    "producer ids": _producer_ids,
}

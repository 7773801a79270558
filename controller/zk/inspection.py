"""What does `zookeeper.connect` point to: a cluster, how old, or nothing? Writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from msgspec import Struct

from controller.core.candidacy.migrating import MigrationPhase, migration_phase
from controller.zk import preparation, protocol
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader, ChunkSize
from controller.zk.login import identity_of
from controller.zk.protocol import Exists, GetChildren, Node
from controller.zk.rights import Granted, Right, granted
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes import admin, brokers, configs, notifications, replicas, topics
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress
from zk_layout.znodes.features import FeatureAddress
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.pause import BY_HAND, Pause, PauseAddress
from zk_layout.znodes.producer_ids import ProducerIdBlockAddress
from zk_layout.znodes.topics import Topic, TopicAddress

_CLUSTER_ID: Final = "/cluster/id"
_OF_A_CLUSTER: Final = frozenset({"brokers", "cluster", "controller", "controller_epoch", "kafka_zk_controller"})
_MOST_CHROOTS: Final = 50
_MOST_TOPICS: Final = 200
_TOPICS_AT_ONCE: Final = 10
_TOPICS_OF_MANY: Final = 100
_SAMPLE: Final = 3
_PAUSE: Final = PauseAddress()
_long = struct.Struct(">q")
_MZXID_AT: Final = 8
_MTIME_AT: Final = 24
_PZXID_AT: Final = 60

# What claims and elections write, and what the rest of a term does: rights to the paths themselves, or to their
# children.
_ESSENTIAL: Final = (
    ("/", Right.CREATE | Right.DELETE),
    (ControllerEpochAddress().path, Right.WRITE),
    (brokers.ROOT, Right.CREATE),
    (topics.ROOT, Right.CREATE),
)
_USEFUL: Final = (
    (brokers.ROOT, Right.DELETE),
    (topics.ROOT, Right.DELETE),
    ("/admin", Right.CREATE | Right.DELETE),
    (admin.DELETE_TOPICS, Right.READ | Right.DELETE),
    ("/config/topics", Right.CREATE | Right.DELETE),
    (notifications.CONFIG_CHANGES, Right.READ | Right.CREATE | Right.DELETE),
    (notifications.ISR_CHANGES, Right.READ | Right.DELETE),
    (notifications.LOG_DIR_EVENTS, Right.READ | Right.DELETE),
    (configs.DefaultBrokerConfigAddress().path, Right.READ),
    (ProducerIdBlockAddress().path, Right.READ | Right.WRITE),
    (FeatureAddress().path, Right.READ | Right.WRITE),
    ("/kafka_zk_controller", Right.CREATE | Right.DELETE),
)
_WORDS: Final = {
    Right.READ: "read",
    Right.WRITE: "write",
    Right.CREATE: "create children of",
    Right.DELETE: "delete children of",
}


class _Lacks(Protocol):
    async def __call__(self, path: str, rights: Right, *, is_essential: bool) -> list[Lacking]:
        """Those of these rights that are missing."""


class Lacking(Struct, frozen=True):
    """A right that we need and ZooKeeper may not grant us."""

    path: str
    right: str
    others: tuple[str, ...]
    is_essential: bool
    may_depend: bool


class Place(Struct, frozen=True):
    """What exists below the chroot.

    Shape:
        `children` are None where not even the chroot exists. `topics` are all names, or none where they are hidden.
    """

    children: tuple[str, ...] | None
    has_cluster_id: bool
    cluster_id: str | None
    topics: tuple[TopicName, ...]


class LastWritten(Exists, frozen=True):
    """When was a znode last written, by the clock of ZooKeeper's leader then? In milliseconds since 1970."""

    def deserialize(self, buffer: bytes, offset: int) -> int:  # type: ignore[override]  # the same bytes, read otherwise
        """Its mtime."""
        return int(_long.unpack_from(buffer, offset + _MTIME_AT)[0])


class LastChanged(Exists, frozen=True):
    """At which zxid was a znode last written?"""

    def deserialize(self, buffer: bytes, offset: int) -> int:  # type: ignore[override]  # the same bytes, read otherwise
        """Its mzxid."""
        return int(_long.unpack_from(buffer, offset + _MZXID_AT)[0])


class LastOfChildren(Exists, frozen=True):
    """At which zxid was a child last created or deleted?"""

    def deserialize(self, buffer: bytes, offset: int) -> int:  # type: ignore[override]  # the same bytes, read otherwise
        """Its pzxid."""
        return int(_long.unpack_from(buffer, offset + _PZXID_AT)[0])


async def brokers_as_of(bridge: Bridge) -> tuple[MigrationPhase | int | None, ...]:
    """The phase of a migration to KRaft, and the zxids of the last change of registered brokers and of brokers' dynamic
    settings. Not the zxid of `/migration`, which a KRaft controller that leads writes all the time.

    Raises:
        SessionEnded: the session has ended.
    """
    phase, reply, names = await asyncio.gather(
        migration(bridge), bridge.read(LastOfChildren(bridge.full(brokers.ROOT))), _children(bridge, configs.BROKERS)
    )
    paths = [f"{configs.BROKERS}/{name}" for name in sorted(names or ())]
    changed = await asyncio.gather(*(bridge.read(LastChanged(bridge.full(path))) for path in paths))
    return (phase, reply.value, *(one.value for one in changed))


async def migration(bridge: Bridge) -> MigrationPhase:
    """The phase of a migration to KRaft; what cannot be read counts as absent.

    Raises:
        SessionEnded: the session has ended.
    """
    held, kept = await asyncio.gather(_node(bridge, ControllerAddress().path), _node(bridge, MigrationAddress().path))
    holder = None if held is None else catalog.decode(ControllerAddress(), held.data)
    progress = None if kept is None else catalog.decode(MigrationAddress(), kept.data)
    assert holder is None or isinstance(holder, ControllerClaim | Malformed)
    assert progress is None or isinstance(progress, Migration | Malformed)
    return migration_phase(holder, progress)


async def place(bridge: Bridge) -> Place:
    """Look at what exists below the chroot.

    Raises:
        SessionEnded: the session has ended.
    """
    children, names, (stat, _) = await asyncio.gather(
        _children(bridge, "/"), _children(bridge, topics.ROOT), bridge.exists(_CLUSTER_ID)
    )
    cluster_id = None
    if stat is not None:
        with contextlib.suppress(Refused):  # it exists, which is enough
            cluster_id = await preparation.cluster_id(bridge)
    return Place(children, stat is not None, cluster_id, tuple(TopicName(name) for name in names or ()))


async def clusters_elsewhere(bridge: Bridge) -> tuple[str, ...]:
    """The chroots directly below ZooKeeper's root where brokers have been; `/` for none.

    Raises:
        SessionEnded: the session has ended.
    """
    reply = await bridge.read(GetChildren("/"))
    names = sorted(reply.value or ())[:_MOST_CHROOTS] if reply.code == protocol.OK else ()
    chroots = [c for c in ("", *(f"/{name}" for name in names)) if c != bridge.full("/").rstrip("/")]
    replies = await asyncio.gather(*(bridge.read(Exists(chroot + _CLUSTER_ID)) for chroot in chroots))
    return tuple(chroot or "/" for chroot, r in zip(chroots, replies, strict=True) if r.value is not None)


async def nothing_here(bridge: Bridge) -> str | None:
    """What was found instead, as text, if neither a cluster nor this controller has ever been here; otherwise None.

    Raises:
        SessionEnded: the session has ended.
    """
    children = await _children(bridge, "/")
    if children is not None and not _OF_A_CLUSTER.isdisjoint(children):
        return None
    what = "the chroot does not exist" if children is None else "none of a cluster's znodes exist"
    elsewhere = await clusters_elsewhere(bridge)
    return what + (f"; a cluster is at {' and at '.join(elsewhere)}" if elsewhere else "")


async def assigned_to(bridge: Bridge, broker: BrokerId, names: tuple[TopicName, ...]) -> TopicName | None:
    """A topic with a replica on this id, unless a controller is known to have had the id. Of many topics, reads a
    sample.

    Raises:
        SessionEnded: the session has ended.
    """
    if broker in await _ids_of_controllers(bridge):
        return None
    for some in _sampled(names):
        each = await asyncio.gather(*(_replicas_of(bridge, name) for name in some))
        if (found := next((name for name, ids in zip(some, each, strict=True) if broker in ids), None)) is not None:
            return found
    return None


async def ids_taken(bridge: Bridge) -> frozenset[BrokerId]:
    """The ids of brokers and replicas of this controller that run, of controllers that have led, and those that topics
    place replicas on. Of many topics, reads a sample.

    Raises:
        SessionEnded: the session has ended.
    """
    registered, running, names, led = await asyncio.gather(
        _children(bridge, brokers.ROOT),
        _children(bridge, replicas.ROOT),
        _children(bridge, topics.ROOT),
        _ids_of_controllers(bridge),
    )
    found = led.union(BrokerId(int(name)) for name in (*(registered or ()), *(running or ())) if name.isdecimal())
    for some in _sampled(map(TopicName, names or ())):
        found = found.union(*await asyncio.gather(*(_replicas_of(bridge, name) for name in some)))
    return found


async def _ids_of_controllers(bridge: Bridge) -> frozenset[BrokerId]:
    """The ids that replicas of this controller have led with."""
    node = await _node(bridge, ControllerIdsAddress().path)
    known = None if node is None else catalog.decode(ControllerIdsAddress(), node.data)
    return frozenset(known.ids) if isinstance(known, ControllerIds) else frozenset()


def _sampled(names: Iterable[TopicName]) -> Iterator[list[TopicName]]:
    """The first of the topics by name, as many at once as are read at once."""
    some = sorted(names)[:_MOST_TOPICS]
    return (some[at : at + _TOPICS_AT_ONCE] for at in range(0, len(some), _TOPICS_AT_ONCE))


async def _replicas_of(bridge: Bridge, name: TopicName) -> frozenset[BrokerId]:
    """The brokers that have replicas of a topic. Decodes one topic at a time: some are large and slow."""
    node = await _node(bridge, TopicAddress(name).path)
    return frozenset() if node is None else _replicas_in(name, node)


def _replicas_in(name: TopicName, node: Node) -> frozenset[BrokerId]:
    topic = catalog.decode(TopicAddress(name), node.data)
    assignments = topic.partitions.values() if isinstance(topic, Topic) else ()
    return frozenset(broker for assignment in assignments for broker in assignment.replicas)


async def hosts(bridge: Bridge, names: tuple[TopicName, ...]) -> frozenset[BrokerId]:
    """The brokers that have replicas of any of these topics. Reads all of them, and lets others run meanwhile.

    Raises:
        SessionEnded: the session has ended.
    """
    found: set[BrokerId] = set()
    bulk, size = BulkReader(bridge), ChunkSize()
    for at in range(0, len(names), _TOPICS_OF_MANY):
        some = names[at : at + _TOPICS_OF_MANY]
        read = await bulk.read([TopicAddress(name).path for name in some], size)
        for name, (node, _) in zip(some, read, strict=True):
            if isinstance(node, Node):
                found |= _replicas_in(name, node)
    return frozenset(found)


async def grants_of_brokers(bridge: Bridge, brokers: tuple[BrokerId, ...]) -> dict[BrokerId, Granted]:
    """What each registration grants. The broker created it, so this shows whom the brokers' znodes belong to.

    Raises:
        SessionEnded: the session has ended.
    """
    identity = identity_of(bridge.settings.security)
    found = await asyncio.gather(*(granted(bridge, BrokerAddress(broker).path, identity) for broker in brokers))
    return {broker: one for broker, one in zip(brokers, found, strict=True) if one is not None}


async def lacking(bridge: Bridge, names: tuple[TopicName, ...]) -> tuple[Lacking, ...]:
    """The rights that a controller needs and lacks; a znode that does not exist yet needs none.

    Raises:
        SessionEnded: the session has ended.
    """
    identity = identity_of(bridge.settings.security)

    async def lacks(path: str, rights: Right, *, is_essential: bool) -> list[Lacking]:
        acl = await granted(bridge, path, identity)
        while acl is None and is_essential and path != "/":
            path, rights = path.rpartition("/")[0] or "/", Right.CREATE  # not created yet
            acl = await granted(bridge, path, identity)
        return [] if acl is None else _missing(path, rights, acl, is_essential=is_essential)

    found = await asyncio.gather(
        *(lacks(path, rights, is_essential=True) for path, rights in _ESSENTIAL),
        *(lacks(path, rights, is_essential=False) for path, rights in _USEFUL),
        _topics_lack(lacks, tuple(sorted(names)[:_SAMPLE])),
    )
    return tuple(one for several in found for one in several)


def _missing(path: str, rights: Right, acl: Granted, *, is_essential: bool) -> list[Lacking]:
    return [
        Lacking(path, word, acl.others, is_essential, right in acl.perhaps)
        for right, word in _WORDS.items()
        if right in rights and right not in acl.surely
    ]


async def _topics_lack(lacks: _Lacks, sample: tuple[TopicName, ...]) -> list[Lacking]:
    """Whether no topic can be written, which is a matter of principle, or only some."""
    each = [
        await lacks(TopicAddress(name).path, Right.WRITE | Right.CREATE, is_essential=False)
        + await lacks(f"{TopicAddress(name).path}/partitions/0/state", Right.WRITE, is_essential=False)
        for name in sample
    ]
    is_essential = bool(each) and all(each)
    return [Lacking(m.path, m.right, m.others, is_essential, m.may_depend) for missing in each for m in missing]


async def last_written_ms(bridge: Bridge, registered: tuple[BrokerId, ...]) -> int:
    """When the newest of some frequently written znodes was written.

    Raises:
        SessionEnded: the session has ended.
    """
    paths = [ControllerAddress().path, ControllerEpochAddress().path, *(BrokerAddress(b).path for b in registered)]
    replies = await asyncio.gather(*(bridge.read(LastWritten(bridge.full(path))) for path in paths))
    return max((reply.value for reply in replies if reply.value is not None), default=0)


async def _children(bridge: Bridge, path: str) -> tuple[str, ...] | None:
    try:
        names, _ = await bridge.children(path)
    except Refused:
        return ()
    return None if names is None else tuple(names)


async def _node(bridge: Bridge, path: str) -> Node | None:
    try:
        return (await bridge.get(path))[0]
    except Refused:
        return None


async def pause_in_force(bridge: Bridge, *, watch: bool = False) -> Pause | None:
    """Who paused moves; None without a pause. It counts whatever its znode holds, readable or not.

    With `watch`, its creation, change and deletion cause events.

    Raises:
        SessionEnded: the session has ended.
    """
    if watch and (await bridge.exists(_PAUSE.path, watch=True))[0] is None:
        return None
    try:
        node, _ = await bridge.get(_PAUSE.path)
    except Refused:
        return BY_HAND
    if node is None:
        return None
    value = catalog.decode(_PAUSE, node.data)
    return value if isinstance(value, Pause) else BY_HAND

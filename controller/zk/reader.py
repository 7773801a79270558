"""Which facts does a controller get to see, and when?

Everything once while loading, then whatever its watches name. What a watch names is only marked; one task reads
all that is marked, round after round, so that a burst of events costs one round, and loading is a round in which
everything is marked. In every round a watch is set before its znode is read, so that no change falls between.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from controller.core.effects import Notice, Read, ReadChildren, Survey
from controller.core.events import Event, Loaded, Observed, Surveyed
from controller.zk.answers import Change, ConnectionState, Refused, SessionEnded, WatchEvent
from controller.zk.bulk import BulkReader, ChunkSize, Found
from controller.zk.reads import Reads
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.facts import Fact, absent, present
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.watched import watched
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress, TopicRemnantAddress

# Up to so many znodes, one watching read each costs less than a request for the watches and a multi-read.
_FEW: Final = 32
_GROUPS_AT_ONCE: Final = 4

Emit = Callable[[Event], None]
_Group = list[tuple[Fact, list[StateAddress]]]


class Reader:
    """Shows one term what ZooKeeper holds. `emit` and `notice` are called on the event loop."""

    def __init__(
        self,
        bridge: Reads,
        emit: Emit,
        *,
        notice: Callable[[Notice], None] = lambda _: None,
        bulk: BulkReader | None = None,
        chunk: int = 2_000,
        follows_reassignments: bool = False,
    ) -> None:
        """Without `follows_reassignments` nothing of `/admin/reassignments` is read.

        `chunk` is how many facts one event holds, more or less: a topic and its partitions stay together.
        """
        self._bridge = bridge
        self._emit_event = emit
        self._notice = notice
        self._bulk = bulk or BulkReader(bridge)
        self._chunk = chunk
        self._watched = watched(follows_reassignments=follows_reassignments)
        self._names: dict[str, set[str]] = {
            parent: set() for parent in (*self._watched.parents, *self._watched.listed_once)
        }
        self._partitions: dict[TopicName, tuple[Zxid, Collection[PartitionId]]] = {}
        self._watched_on_request: set[str] = set()
        self._noticed: set[str] = set()
        self._marked_parents: dict[str, None] = {}
        self._marked: dict[str, None] = {}
        self._asked: list[Read] = []
        self._surveys: list[TopicName] = []
        self._families: dict[str, None] = {}
        self._children: dict[str, set[str]] = {}
        self._is_marked = asyncio.Event()
        self._is_stopped = False
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Observe everything once, say `Loaded`, and keep watching.

        Raises:
            SessionEnded: the session expired meanwhile.
            Refused: ZooKeeper does not let us read.
        """
        self._bridge.watch_listeners.append(self._on_watch)
        self._bridge.state_listeners.append(self._on_state)
        self._marked_parents.update(dict.fromkeys(self._names))
        self._marked.update(dict.fromkeys(self._watched.paths))
        await self._round()
        self._emit(Loaded())
        if not self._is_stopped:
            self._task = asyncio.create_task(self._keep_reading())

    def read(self, effect: Read) -> None:
        """Read these again, after what is being read."""
        self._asked.append(effect)
        self._is_marked.set()

    def read_children(self, effect: ReadChildren) -> None:
        """Read all children of a znode, after what is being read, and tell which of those read earlier are gone."""
        self._families[effect.parent] = None
        self._is_marked.set()

    def survey(self, effect: Survey) -> None:
        """List everything below a topic's znode, after what is being read."""
        self._surveys.append(effect.topic)
        self._is_marked.set()

    def stop(self) -> None:
        """Emit nothing from now on."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._on_watch in self._bridge.watch_listeners:
            self._bridge.watch_listeners.remove(self._on_watch)
            self._bridge.state_listeners.remove(self._on_state)
        if self._task is not None:
            self._task.cancel()

    async def wait(self) -> None:
        """Until reading has ended: by `stop`, with the session, or by a failure, which is raised."""
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    def _emit(self, event: Event) -> None:
        if not self._is_stopped:
            self._emit_event(event)

    def _observe(self, facts: Sequence[Fact]) -> None:
        if facts:
            self._emit(Observed(tuple(facts)))

    def _on_state(self, state: ConnectionState) -> None:
        if state is ConnectionState.LOST:
            self.stop()

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path in self._watched.parents:
            self._marked_parents[event.path] = None
            self._is_marked.set()
        if event.change is not Change.CHILDREN and self._is_watched(event.path):
            self._marked[event.path] = None
            self._is_marked.set()

    def _is_watched(self, path: str) -> bool:
        if path in self._watched.paths or path in self._watched_on_request:
            return True
        parent, _, name = path.rpartition("/")
        return parent in self._watched.families and name in self._names[parent]

    async def _keep_reading(self) -> None:
        while True:
            await self._is_marked.wait()
            self._is_marked.clear()
            try:
                await self._round()
            except SessionEnded:
                self.stop()
                return

    async def _round(self) -> None:
        parents, self._marked_parents = self._marked_parents, {}
        marked, self._marked = self._marked, {}
        asked, self._asked = self._asked, []
        surveys, self._surveys = self._surveys, []
        families, self._families = self._families, {}
        come = await asyncio.gather(*(self._list(parent) for parent in self._names if parent in parents))
        by_parent: dict[str, dict[str, None]] = {}
        for path in itertools.chain(marked, *come):
            parent, _, name = path.rpartition("/")
            # What its parent's listing has just shown to be gone needs no reading.
            if name in self._names.get(parent, ()):
                by_parent.setdefault(parent, {})[path] = None
        for parent in self._names:
            await self._read_family(parent, tuple(by_parent.get(parent, ())))
        self._observe(await asyncio.gather(*(self._read_lone(path) for path in marked if path in self._watched.paths)))
        await self._read_requested([path for path in marked if path in self._watched_on_request], watch=True)
        for effect in asked:
            await self._read_requested([address.path for address in effect.addresses], watch=effect.watch)
        for parent in families:
            await self._read_children(parent)
        for topic in surveys:
            self._emit(Surveyed(topic, await self._survey(topic)))

    async def _list(self, parent: str) -> list[str]:
        """What has gone is told at once; answers the paths of what has come."""
        is_watched = parent in self._watched.parents
        names, zxid = await self._bridge.children(parent, watch=is_watched)
        while names is None and is_watched:
            stat, zxid = await self._bridge.exists(parent, watch=True)
            if stat is None:
                break
            names, zxid = await self._bridge.children(parent, watch=True)
        listed = set(names or ())
        known = self._names[parent]
        gone, come = sorted(known - listed), sorted(listed - known)
        self._observe([self._gone(f"{parent}/{name}", zxid) for name in gone])
        paths = []
        for name in come:
            path = f"{parent}/{name}"
            if _address_of(path) is None:
                self._notice_once(path)
            else:
                known.add(name)
                self._watched_on_request.discard(path)
                paths.append(path)
        return paths

    async def _read_children(self, parent: str) -> None:
        """What we may not read is named once and left out; it is no reason to stop reading everything else."""
        try:
            names, zxid = await self._bridge.children(parent)
        except Refused as error:
            self._notice_unreadable(parent, error)
            return
        listed = {f"{parent}/{name}" for name in names or ()}
        known, self._children[parent] = self._children.get(parent, set()), listed
        self._observe([absent(_known_address(path), zxid) for path in sorted(known - listed)])
        paths = [path for path in sorted(listed) if _address_of(path) is not None]
        found = await asyncio.gather(*(self._read_child(path) for path in paths))
        self._observe([fact for fact in found if fact is not None])

    async def _read_child(self, path: str) -> Fact | None:
        try:
            return self._fact(path, await self._bridge.get(path))
        except Refused as error:
            self._notice_unreadable(path, error)
            return None

    def _notice_unreadable(self, path: str, error: Refused) -> None:
        if path not in self._noticed:
            self._noticed.add(path)
            self._notice(Notice("unreadable znode", f"{error}; it is left alone until this controller may read it"))

    async def _survey(self, topic: TopicName) -> tuple[tuple[Address, ZnodeVersion], ...]:
        """Level by level; what vanishes meanwhile is left out."""
        root = TopicAddress(topic).path
        levels = [[root]]
        while levels[-1]:
            listings = await asyncio.gather(*(self._bridge.children(path) for path in levels[-1]))
            pairs = zip(levels[-1], listings, strict=True)
            levels.append([f"{path}/{name}" for path, (names, _) in pairs for name in sorted(names or ())])
        paths = [path for level in reversed(levels[1:]) for path in level]
        found = await self._bulk.read(paths, ChunkSize())
        return tuple(
            (_address_of(path) or TopicRemnantAddress(topic, path.removeprefix(f"{root}/")), node.stat.version)
            for path, (node, _) in zip(paths, found, strict=True)
            if node is not None
        )

    def _gone(self, path: str, zxid: Zxid) -> Fact:
        address = _known_address(path)
        parent, _, name = path.rpartition("/")
        if parent in self._names:
            self._names[parent].discard(name)
        if isinstance(address, TopicAddress):
            self._partitions.pop(address.topic, None)
        self._watched_on_request.discard(path)
        return absent(address, zxid)

    def _notice_once(self, path: str) -> None:
        if path not in self._noticed:
            self._noticed.add(path)
            self._notice(Notice("unknown znode", f"{path} is not a name that Kafka uses; it is ignored"))

    async def _fetch(self, paths: Sequence[str], *, watch: bool) -> list[Found]:
        if len(paths) <= _FEW:
            return list(await asyncio.gather(*(self._bridge.get(path, watch=watch) for path in paths)))
        if watch:
            self._bridge.watch_data(paths, self._bridge.seen_zxid)
        return await self._bulk.read(paths, ChunkSize())

    async def _read_family(self, parent: str, paths: Sequence[str]) -> None:
        found = await self._fetch(paths, watch=parent in self._watched.families)
        await self._observe_found(paths, found)

    async def _read_requested(self, paths: Sequence[str], *, watch: bool) -> None:
        lone = [path for path in paths if path in self._watched.paths]
        others = [path for path in paths if path not in self._watched.paths]
        if watch:
            self._watched_on_request.update(path for path in others if not self._is_watched(path))
        self._observe(await asyncio.gather(*(self._read_lone(path) for path in lone)))
        await self._observe_found(others, await self._fetch(others, watch=watch))

    async def _read_lone(self, path: str) -> Fact:
        """A znode that need not exist; its next change is told, be it its creation."""
        _, found = await asyncio.gather(self._bridge.exists(path, watch=True), self._bridge.get(path))
        return self._fact(path, found)

    async def _observe_found(self, paths: Sequence[str], found: Sequence[Found]) -> None:
        """A topic is told together with those of its partitions' states that have not been read yet."""
        facts = [self._fact(path, seen) for path, seen in zip(paths, found, strict=True)]
        slots = asyncio.Semaphore(_GROUPS_AT_ONCE)
        size = ChunkSize(first=1_000)

        async def complete(group: _Group) -> None:
            async with slots:
                addresses = [address for _, unread in group for address in unread]
                states = await self._bulk.read([address.path for address in addresses], size)
                observed = [fact for fact, _ in group]
                observed += map(_fact, addresses, states)
                self._observe(observed)

        await asyncio.gather(*(complete(group) for group in self._grouped(facts)))

    def _fact(self, path: str, found: Found) -> Fact:
        node, zxid = found
        if node is None:
            return self._gone(path, zxid)
        return _fact(_known_address(path), found)

    def _grouped(self, facts: Iterable[Fact]) -> Iterator[_Group]:
        group: _Group = []
        count = 0
        for fact in facts:
            unread = self._unread_states(fact)
            group.append((fact, unread))
            count += 1 + len(unread)
            if count >= self._chunk:
                yield group
                group, count = [], 0
        if group:
            yield group

    def _unread_states(self, fact: Fact) -> list[StateAddress]:
        if not isinstance(fact.address, TopicAddress) or not isinstance(fact.value, Topic) or fact.stat is None:
            return []
        topic = fact.address.topic
        czxid, known = self._partitions.get(topic, (fact.stat.czxid, ()))
        if czxid != fact.stat.czxid:
            known = ()  # another topic of the same name
        self._partitions[topic] = (fact.stat.czxid, fact.value.partitions.keys())
        return [StateAddress(topic, number) for number in fact.value.partitions if number not in known]


def _fact(address: Address, found: Found) -> Fact:
    node, zxid = found
    if node is None:
        return absent(address, zxid)
    if isinstance(address, BrokerAddress) and not node.data:
        # A broker that is about to write its registration: not there yet, as of its creation.
        return absent(address, node.stat.mzxid)
    return present(address, catalog.decode(address, node.data), node.stat)


def _address_of(path: str) -> Address | None:
    """None also where the address is that of another spelling, as of a broker "007"."""
    address = catalog.address_of(path)
    return address if address is not None and address.path == path else None


def _known_address(path: str) -> Address:
    address = catalog.address_of(path)
    if address is None:
        raise ValueError(f"{path} is none of the znodes of a controller")
    return address

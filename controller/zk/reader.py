"""Which facts does a controller get to see, and when?

Everything once while loading, then whatever its watches report. A watch event only marks its znode; one task reads
everything marked, round after round, so that a burst of events costs one round. Loading is a round in which everything
is marked. In each round a watch is set before its znode is read, so that no change is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from controller.core.messages.effects import Notice, Read, ReadAgain, ReadChildren, Survey
from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused, Surveyed
from controller.zk.answers import Change, ConnectionState, Disconnected, Refused, SessionEnded, WatchEvent
from controller.zk.bulk import BulkReader, ChunkSize, Found, Hidden, read_one
from controller.zk.lives import Births, Lives
from controller.zk.oddities import Oddities
from controller.zk.protocol import Node
from controller.zk.reads import Reads
from controller.zk.surveyor import Surveyor, named
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.codec import Malformed, one_line, passed_over
from zk_layout.facts import Fact, absent, present
from zk_layout.ids import PartitionId, TopicName, Zxid
from zk_layout.watched import RECREATED, Watched, watched
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

# Up to this many znodes, one watching read each costs less than a request for the watches and a multi-read.
_FEW: Final = 32
_GROUPS_AT_ONCE: Final = 4
_ASKED_AT_ONCE: Final = 16
_DECODED_AT_ONCE: Final = 100
"""Topics' znodes, which may be large."""
# Many partitions have the same replicas in sync, the same leader and the same epochs.
_STATES_REMEMBERED: Final = 10_000

Emit = Callable[[Event], None]
_Births = Mapping[str, tuple[int, Zxid]]
NO_BIRTHS: Final[_Births] = MappingProxyType({})
_Group = list[tuple[Fact, list[StateAddress]]]


class Reader:
    """Shows what ZooKeeper holds, in one session. `emit` and `notice` are called on the event loop."""

    def __init__(  # noqa: PLR0913 - each is a seam of its own, and most have a default
        self,
        bridge: Reads,
        emit: Emit,
        *,
        notice: Callable[[Notice], None] = lambda _: None,
        bulk: BulkReader | None = None,
        chunk: int = 2_000,
        what: Watched | None = None,
        decode: Callable[[Address, bytes], Any] = catalog.decode,
    ) -> None:
        """`what` is, by default, what every term watches; `decode` makes values of bytes.

        `chunk` is roughly how many facts one event holds; a topic and its partitions stay together.
        """
        self._bridge = bridge
        self._emit_event = emit
        self._bulk = bulk or BulkReader(bridge)
        self._surveyor = Surveyor(bridge, self._bulk, self._refuse, self._allow)
        self._chunk = chunk
        self._decode = decode
        self._watched = what or watched()
        self._names: dict[str, set[str]] = {
            parent: set() for parent in (*self._watched.parents, *self._watched.listed_once)
        }
        lone_in = {path.rpartition("/")[0] for path in self._watched.paths}
        recreated = (folder for folder in RECREATED if folder in self._watched.families or folder in lone_in)
        self._is_marked = asyncio.Event()
        self.lives = Lives(recreated, self._is_marked.set)
        self._partitions: dict[TopicName, tuple[Zxid, Collection[PartitionId]]] = {}
        self._watched_on_request: set[str] = set()
        self._oddities = Oddities(notice)
        self._states: dict[bytes, PartitionState] = {}
        self._refused: set[str] = set()
        self._is_loaded = False
        self._marked_parents: dict[str, None] = {}
        self._marked: dict[str, None] = {}
        self._asked: list[Read] = []
        self._surveys: list[TopicName] = []
        self._families: dict[str, None] = {}
        self._children: dict[str, set[str]] = {}
        self._reading = asyncio.Lock()
        self._prepared: tuple[str, ...] | None = None
        self._is_stopped = False
        self._task: asyncio.Task[None] | None = None

    async def prepare(self, *parents: str) -> None:
        """Observe the children of these parents, of which `load` reads only what is new, has changed, or was refused.
        Raises what `load` raises."""
        self._prepared = parents
        await self._begin(parents, (), tuple)

    async def load(self, also: Callable[[], Iterable[Address]] = tuple) -> None:
        """Observe everything once, emit `Loaded`, and keep watching. Once earlier reads are over, `also` says what else
        is to be read.

        Raises:
            SessionEnded: the session has expired.
            Refused: ZooKeeper does not let us list what is indispensable.
        """
        self._prepared = None
        self.read_again(ReadAgain(tuple(self._refused)))
        await self._begin(self._names, self._watched.paths, also)
        self._is_loaded = True
        self._emit(Loaded())

    async def _begin(self, parents: Iterable[str], paths: Iterable[str], also: Callable[[], Iterable[Address]]) -> None:
        if self._task is None:
            self._bridge.watch_listeners.append(self._on_watch)
            self._bridge.state_listeners.append(self._on_state)
        async with self._reading:
            if self.has_ended:  # what it was reading has been lost
                raise SessionEnded("reading ended before everything was read")
            self._marked_parents.update(dict.fromkeys(parents))
            self._marked.update(dict.fromkeys(paths))
            self._asked.append(Read(tuple(also())))
            await self._round()
        if not self._is_stopped and self._task is None:
            self._task = asyncio.create_task(self._keep_reading())

    @property
    def has_ended(self) -> bool:
        """Whether nothing is read any more: stopped, or ended by the session or by a failure."""
        return self._is_stopped or (self._task is not None and self._task.done())

    def read(self, effect: Read) -> None:
        """Read these znodes again, after the reads under way."""
        self._asked.append(effect)
        self._is_marked.set()

    def read_children(self, effect: ReadChildren) -> None:
        """Read all children of a znode, after the reads under way, and emit which of those read earlier are gone."""
        self._families[effect.parent] = None
        self._is_marked.set()

    def read_again(self, effect: ReadAgain) -> None:
        """Read these znodes again, including those that were refused."""
        for path in effect.paths:
            if path in self._names:
                self._marked_parents[path] = None
            elif path in self._children:
                self._families[path] = None
            elif self._is_watched(path):
                self._marked[path] = None
            elif (address := named(path)) is not None:
                self._asked.append(Read((address,)))
            else:
                self._allow(path)  # a znode below a topic: the part that wants it asks again
        self._is_marked.set()

    def forget(self, path: str) -> None:
        """This process has deleted the znode: if its name is listed again, it is a new one."""
        parent, _, name = path.rpartition("/")
        if parent in self._names:
            self._names[parent].discard(name)
        self.lives.saw(path, None)

    def survey(self, effect: Survey) -> None:
        """List everything below a topic's znode, after the reads under way."""
        self._surveys.append(effect.topic)
        self._is_marked.set()

    def stop(self) -> None:
        """Emit nothing more."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._on_watch in self._bridge.watch_listeners:
            self._bridge.watch_listeners.remove(self._on_watch)
            self._bridge.state_listeners.remove(self._on_state)
        if self._task is not None:
            self._task.cancel()

    async def wait(self) -> None:
        """Wait until reading has ended: by `stop`, with the session, or by a failure, which is raised."""
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
        if self._prepared is not None and not event.path.startswith(self._prepared):
            return  # other parts of this process watch it, and `load` reads it
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
                async with self._reading:
                    await self._round()
            except SessionEnded:
                self.stop()
                return

    async def _round(self) -> None:
        uncounted = self.lives.take_uncounted()
        births = await self._count_births(folder for folder, _ in uncounted)
        parents, self._marked_parents = self._marked_parents, {}
        marked, self._marked = self._marked, {}
        asked, self._asked = self._asked, []
        surveys, self._surveys = self._surveys, []
        families, self._families = self._families, {}
        listed = [parent for parent in self._names if parent in parents]
        come = await asyncio.gather(*(self._list(parent) for parent in listed))
        by_parent: dict[str, dict[str, None]] = {}
        for path in itertools.chain(marked, *(paths or () for paths in come)):
            parent, _, name = path.rpartition("/")
            # The parent's listing has just shown that it is gone: no need to read it.
            if name in self._names.get(parent, ()):
                by_parent.setdefault(parent, {})[path] = None
        for parent in self._names:
            await self._read_family(parent, tuple(by_parent.get(parent, ())), births)
        for parent, paths in zip(listed, come, strict=True):
            if paths is not None:
                self._allow(parent)  # all its children have been emitted
        await self._read_lone([path for path in marked if path in self._watched.paths], births)
        for _, counted in uncounted:
            counted()
        await self._read_requested([path for path in marked if path in self._watched_on_request], watch=True)
        await self._read_asked(asked)
        for parent in families:
            await self._read_children(parent)
        for topic in surveys:
            self._emit(Surveyed(topic, await self._surveyor.everything_below(topic)))

    async def _count_births(self, uncounted: Iterable[str]) -> _Births:
        """Count the births in the folders about to be read, beforehand: every change up to the count is marked by
        then."""
        asked = (address.path for effect in self._asked for address in effect.addresses)
        paths = itertools.chain(self._marked, asked)
        in_folders = (folder for path in paths if (folder := self.lives.folder_of(path)) is not None)
        due = {*self._marked_parents, *in_folders, *uncounted}
        folders = [folder for folder in self.lives.folders if folder in due]
        found: dict[str, tuple[int, Zxid]] = {}
        with contextlib.suppress(Disconnected):  # a guard that needs the count is refused and has the folder read again
            replies = await asyncio.gather(*(self._bridge.ask(Births(self._bridge.full(folder))) for folder in folders))
            found.update((f, (r.value, r.zxid)) for f, r in zip(folders, replies, strict=True) if r.value is not None)
        return found

    async def _list(self, parent: str) -> list[str] | None:
        """Emit at once what has gone, and return the paths of new children; None if we may not list them."""
        try:
            names, zxid = await self._children_of(parent, watch=parent in self._watched.parents)
        except Refused as error:
            if parent in self._watched.indispensable and not self._is_loaded:
                raise
            self._refuse(parent, f"{error} (its children)")
            return None
        listed = set(names or ())
        known = self._names[parent]
        gone, come = sorted(known - listed), sorted(listed - known)
        self._observe([self._gone(f"{parent}/{name}", zxid) for name in gone])
        paths = []
        for name in come:
            path = f"{parent}/{name}"
            if named(path) is None:
                self._oddities.stranger(path)
            else:
                known.add(name)
                self._watched_on_request.discard(path)
                paths.append(path)
        return paths

    async def _children_of(self, parent: str, *, watch: bool) -> tuple[list[str] | None, Zxid]:
        names, zxid = await self._bridge.children(parent, watch=watch)
        while names is None and watch:
            stat, zxid = await self._bridge.exists(parent, watch=True)
            if stat is None:
                break
            names, zxid = await self._bridge.children(parent, watch=True)
        return names, zxid

    async def _read_children(self, parent: str) -> None:
        known = self._children.setdefault(parent, set())
        try:
            names, zxid = await self._bridge.children(parent)
        except Refused as error:
            self._refuse(parent, f"{error} (its children)")
            return
        self._allow(parent)
        paths = [path for path in (f"{parent}/{name}" for name in sorted(names or ())) if named(path) is not None]
        self._children[parent] = set(paths)
        self._observe([absent(_known_address(path), zxid) for path in sorted(known - set(paths))])
        found = await asyncio.gather(*(read_one(self._bridge, path) for path in paths))
        self._show(paths, found)

    def _refuse(self, path: str, reason: str, address: Address | None = None) -> None:
        """An unreadable znode affects only what depends on it; reading continues."""
        self._refused.add(path)
        if isinstance(address, TopicAddress):
            self._partitions.pop(address.topic, None)
        self._emit(ReadRefused(path, one_line(reason), address))

    def _allow(self, path: str) -> None:
        if path in self._refused:
            self._refused.discard(path)
            self._emit(ReadAllowed(path))

    def _gone(self, path: str, zxid: Zxid) -> Fact:
        address = _known_address(path)
        self.lives.saw(path, None)
        parent, _, name = path.rpartition("/")
        if parent in self._names:
            self._names[parent].discard(name)
        if isinstance(address, TopicAddress):
            self._partitions.pop(address.topic, None)
        self._watched_on_request.discard(path)
        return absent(address, zxid)

    async def _fetch(self, paths: Sequence[str], *, watch: bool) -> list[Found]:
        if len(paths) <= _FEW:
            return list(await asyncio.gather(*(read_one(self._bridge, path, watch=watch) for path in paths)))
        if watch:
            self._bridge.watch_data(paths, self._bridge.seen_zxid)
        return await self._bulk.read(paths, ChunkSize())

    async def _read_family(self, parent: str, paths: Sequence[str], births: _Births) -> None:
        found = await self._fetch(paths, watch=parent in self._watched.families)
        self._note_lives(paths, found)
        self._count((parent,), births)
        await self._observe_found(paths, found)

    async def _read_asked(self, asked: Iterable[Read]) -> None:
        """Read what was asked for, several at a time: a lost connection leaves many transactions to look into."""
        slots = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def read(effect: Read) -> None:
            async with slots:
                await self._read_requested([address.path for address in effect.addresses], watch=effect.watch)

        await asyncio.gather(*map(read, asked))

    async def _read_requested(self, paths: Sequence[str], *, watch: bool) -> None:
        lone = [path for path in paths if path in self._watched.paths]
        others = [path for path in paths if path not in self._watched.paths]
        if watch:
            self._watched_on_request.update(path for path in others if not self._is_watched(path))
        await self._read_lone(lone)
        found = await self._fetch(others, watch=watch)
        self._note_lives(others, found)
        await self._observe_found(others, found)

    async def _read_lone(self, paths: Sequence[str], births: _Births = NO_BIRTHS) -> None:
        """Read znodes that need not exist, and have the next change of each reported, including its creation."""
        found = await asyncio.gather(*(self._read_and_watch(path) for path in paths))
        self._note_lives(paths, found)
        self._count((folder for folder in births if folder not in self._names), births)
        self._show(paths, found)

    def _note_lives(self, paths: Sequence[str], found: Sequence[Found]) -> None:
        for path, (node, _) in zip(paths, found, strict=True):
            if not isinstance(node, Hidden):  # otherwise what was read before stays valid
                self.lives.saw(path, None if node is None else node.stat.czxid)

    def _count(self, folders: Iterable[str], births: _Births) -> None:
        """Count births: every change in these folders up to the count has been read, but not emitted yet."""
        for folder in folders:
            if folder in births:
                self.lives.counted(folder, *births[folder])

    async def _read_and_watch(self, path: str) -> Found:
        _, found = await asyncio.gather(self._watch(path), read_one(self._bridge, path))
        return found

    async def _watch(self, path: str) -> None:
        with contextlib.suppress(Refused):  # reading it needs the same right and reports the refusal
            await self._bridge.exists(path, watch=True)

    def _show(self, paths: Sequence[str], found: Sequence[Found]) -> None:
        self._observe(self._readable(paths, found))
        self._show_hidden(paths, found)

    def _readable(self, paths: Sequence[str], found: Sequence[Found]) -> list[Fact]:
        return [
            self._fact(path, node, zxid)
            for path, (node, zxid) in zip(paths, found, strict=True)
            if not isinstance(node, Hidden)
        ]

    def _show_hidden(self, paths: Sequence[str], found: Sequence[Found]) -> None:
        for path, (node, _) in zip(paths, found, strict=True):
            if isinstance(node, Hidden):
                self._refuse(path, node.reason, _known_address(path))
            elif path in self._refused and path in self._names:
                self._marked_parents[path] = None  # its children may be listable again as well
                self._is_marked.set()
            elif path in self._refused:
                self._allow(path)
                if self._is_watched(path):  # a refused read sets no watch, and this one perhaps did not either
                    self._marked[path] = None
                    self._is_marked.set()

    async def _observe_found(self, paths: Sequence[str], found: Sequence[Found]) -> None:
        """Emit a topic together with those states of its partitions that have not been read yet."""
        facts: list[Fact] = []
        for begun in range(0, len(paths), _DECODED_AT_ONCE):
            if begun:
                await asyncio.sleep(0)
            end = begun + _DECODED_AT_ONCE
            facts += self._readable(paths[begun:end], found[begun:end])
        slots = asyncio.Semaphore(_GROUPS_AT_ONCE)
        size = ChunkSize(first=1_000)

        async def complete(group: _Group) -> None:
            async with slots:
                addresses = [address for _, unread in group for address in unread]
                unread_paths = [address.path for address in addresses]
                states = await self._bulk.read(unread_paths, size)
                observed = [fact for fact, _ in group]
                for begun in range(0, len(addresses), self._chunk):
                    if begun:
                        await asyncio.sleep(0)  # a wide topic would block the event loop
                    end = begun + self._chunk
                    pairs = zip(addresses[begun:end], states[begun:end], strict=True)
                    observed += [
                        self._seen(at, node, zxid) for at, (node, zxid) in pairs if not isinstance(node, Hidden)
                    ]
                self._observe(observed)
                if self._refused or len(observed) < len(group) + len(addresses):
                    self._show_hidden(unread_paths, states)

        await asyncio.gather(*(complete(group) for group in self._grouped(facts)))
        self._show_hidden(paths, found)

    def _fact(self, path: str, node: Node | None, zxid: Zxid) -> Fact:
        if node is None:
            return self._gone(path, zxid)
        return self._seen(_known_address(path), node, zxid)

    def _seen(self, address: Address, node: Node | None, zxid: Zxid) -> Fact:
        if node is None:
            return absent(address, zxid)
        if not node.data and isinstance(address, BrokerAddress) and node.stat.version == 0:
            # A broker about to write its registration: absent, as of the znode's creation.
            return absent(address, node.stat.mzxid)
        if type(address) is StateAddress and (state := self._states.get(node.data)) is not None:
            return present(address, state, node.stat)
        value = self._decode(address, node.data)
        if value is not None and not isinstance(value, Malformed):
            if (oddity := passed_over(node.data)) is not None:
                self._oddities.content(address, oddity)
            elif isinstance(value, PartitionState):
                if len(self._states) >= _STATES_REMEMBERED:
                    self._states.clear()
                self._states[node.data] = value
        return present(address, value, node.stat)

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
        if not isinstance(fact.address, TopicAddress) or fact.stat is None:
            return []
        topic = fact.address.topic
        if not isinstance(fact.value, Topic):
            if not self._is_loaded:
                self._partitions.pop(topic, None)  # a term begins without what was read before
            return []
        czxid, known = self._partitions.get(topic, (fact.stat.czxid, ()))
        if czxid != fact.stat.czxid:
            known = ()  # another topic of the same name
        self._partitions[topic] = (fact.stat.czxid, fact.value.partitions.keys())
        return [StateAddress(topic, number) for number in fact.value.partitions if number not in known]


def _known_address(path: str) -> Address:
    address = catalog.address_of(path)
    if address is None:
        raise ValueError(f"{path} is not a znode that a controller uses")
    return address

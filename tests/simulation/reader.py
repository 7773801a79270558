"""Which facts does a leading controller get to see, and when? As `controller.zk.reader` shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controller.core.events import Loaded, Observed, Surveyed
from tests.simulation.network import LOST, ZkConnection
from tests.simulation.zookeeper import Happened, SessionExpired, WatchEvent, ZooKeeper
from zk_layout import catalog
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import SessionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.topics import Topic, TopicAddress, TopicRemnantAddress

WATCHED_PARENTS = (
    "/brokers/ids",
    "/brokers/topics",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/config/changes",
    "/kafka_zk_controller/replica_deletions",
)
LISTED_ONCE = ("/admin/reassign_partitions_status",)
WATCHED_DATA = (
    "/feature",
    "/config/brokers/<default>",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
    "/latest_producer_id_block",
    "/admin/reassign_partitions_status",
)
WATCHED_FAMILIES = ("/brokers/ids", "/brokers/topics", "/admin/delete_topics")
FOLDER = "/admin/reassignments"

_Seen = tuple[tuple[bytes, Stat] | None, Zxid]


class Reader:
    """Loads everything, then keeps one-shot watches and reads again what they name."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        session: SessionId,
        connection: ZkConnection,
        emit: Callable[[Any], None],
        *,
        follows_reassignments: bool = False,
    ) -> None:
        folder = (FOLDER,) if follows_reassignments else ()
        self._watched_parents = (*WATCHED_PARENTS, *folder)
        self._watched_data = (*WATCHED_DATA, *folder)
        self._watched_families = (*WATCHED_FAMILIES, *folder)
        self._zookeeper = zookeeper
        self._session = session
        self._connection = connection
        self._emit = emit
        self._children: dict[str, tuple[str, ...]] = {}
        self._watched_on_request: dict[str, None] = {}
        self._states: dict[str, None] = {}
        self._czxids: dict[str, Zxid] = {}
        self._outstanding = 0
        self._is_loading = True

    def load(self) -> None:
        """Read everything once, watching it; then say so."""
        self._outstanding += 1
        for parent in (*self._watched_parents, *LISTED_ONCE):
            self._list(parent)
        for path in self._watched_data:
            self._get(path, watch=True)
        self._outstanding -= 1
        self._say_loaded()

    def read(self, addresses: Iterable[catalog.Address], watch: bool) -> None:
        """What a `Read` effect asks for, shown together when the last of it has come."""
        paths = [address.path for address in addresses]
        facts: list[Fact] = []

        def seen(path: str, found: _Seen) -> None:
            facts.extend(self._facts(path, found))
            if path == paths[-1]:
                self._show(tuple(facts))

        for path in paths:
            if watch and not self._is_kept_watched(path):
                self._watched_on_request[path] = None
            self._look(path, watch=watch or self._is_kept_watched(path), use=seen)

    def read_children(self, parent: str) -> None:
        """Read all children once; those seen before that are gone are told too."""

        def perform() -> tuple[tuple[str, ...], Zxid]:
            return self._zookeeper.children(self._session, parent) or (), self._zookeeper.zxid

        def listed(found: tuple[tuple[str, ...], Zxid]) -> None:
            names, zxid = found
            self._listed(parent, names, zxid)
            for name in names:
                self._get(f"{parent}/{name}", watch=False)

        self._call(perform, listed)

    def survey(self, topic: TopicName) -> None:
        """List everything below a topic's znode, children first."""
        root = TopicAddress(topic).path

        def perform() -> tuple[tuple[str, ZnodeVersion], ...]:
            nodes = self._zookeeper.nodes
            paths = sorted((p for p in nodes if p.startswith(f"{root}/")), key=lambda p: (-p.count("/"), p))
            return tuple((p, ZnodeVersion(nodes[p].version)) for p in paths)

        def listed(found: tuple[tuple[str, ZnodeVersion], ...]) -> None:
            below = f"{root}/"
            pairs = [
                (catalog.address_of(p) or TopicRemnantAddress(topic, p.removeprefix(below)), version)
                for p, version in found
            ]
            self._emit(Surveyed(topic, tuple(pairs)))

        self._call(perform, listed)

    def fired(self, event: WatchEvent) -> None:
        """A watch of this session fired."""
        if event.happened is Happened.CHILDREN or event.path in self._watched_parents:
            self._list(event.path)
        if event.happened is Happened.CHILDREN:
            return
        if event.path in self._watched_on_request or self._is_kept_watched(event.path):
            self._get(event.path, watch=True)

    def _is_kept_watched(self, path: str) -> bool:
        parent = path.rpartition("/")[0]
        return path in self._watched_data or parent in self._watched_families

    def _call(self, perform: Callable[[], Any], use: Callable[[Any], None]) -> None:
        self._outstanding += 1

        def replied(result: Any) -> None:
            if result is not LOST:
                use(result)
            elif self._session in self._zookeeper.sessions:
                self._call(perform, use)
            self._outstanding -= 1
            self._say_loaded()

        self._connection.call(perform, replied)

    def _say_loaded(self) -> None:
        if self._is_loading and not self._outstanding:
            self._is_loading = False
            self._emit(Loaded())

    def _get(self, path: str, *, watch: bool) -> None:
        self._look(path, watch=watch, use=self._saw)

    def _look(self, path: str, *, watch: bool, use: Callable[[str, _Seen], None]) -> None:
        self._call(
            lambda: (self._zookeeper.get(self._session, path, watch), self._zookeeper.zxid),
            lambda seen: use(path, seen),
        )

    def _saw(self, path: str, seen: _Seen) -> None:
        facts = self._facts(path, seen)
        if facts:
            self._show(facts)

    def _facts(self, path: str, seen: _Seen) -> tuple[Fact, ...]:
        found, zxid = seen
        address = catalog.address_of(path)
        if address is None:
            return ()
        if isinstance(address, TopicAddress):
            self._forget_former(path, None if found is None else found[1].czxid)
        if found is None:
            self._watched_on_request.pop(path, None)
            return (absent(address, zxid),)
        if isinstance(address, BrokerAddress) and not found[0]:
            return (absent(address, found[1].mzxid),)
        value = catalog.decode(address, found[0])
        return (present(address, value, found[1]),)

    def _forget_former(self, path: str, czxid: Zxid | None) -> None:
        """The states of a topic that is gone, or of another that had its name, are not those to be read now."""
        if self._czxids.get(path) not in (None, czxid):
            self._states = {p: None for p in self._states if not p.startswith(f"{path}/")}
        if czxid is None:
            self._czxids.pop(path, None)
        else:
            self._czxids[path] = czxid

    def _show(self, facts: tuple[Fact, ...]) -> None:
        self._emit(Observed(facts))
        for fact in facts:
            self._read_new_states(fact.address.path, fact.address, fact.value)

    def _read_new_states(self, path: str, address: catalog.Address, value: object) -> None:
        if isinstance(address, TopicAddress) and isinstance(value, Topic):
            for number in value.partitions:
                state = f"{path}/partitions/{number}/state"
                if state not in self._states:
                    self._states[state] = None
                    self._get(state, watch=False)

    def _list(self, parent: str) -> None:
        def perform() -> tuple[tuple[str, ...], Zxid]:
            names = self._zookeeper.children(self._session, parent, watch=parent in self._watched_parents)
            if names is None and self._session not in self._zookeeper.sessions:
                raise SessionExpired
            return names or (), self._zookeeper.zxid

        self._call(perform, lambda listed: self._listed(parent, *listed))

    def _listed(self, parent: str, names: tuple[str, ...], zxid: Zxid) -> None:
        before = self._children.get(parent, ())
        self._children[parent] = names
        for name in names:
            if name not in before:
                self._get(f"{parent}/{name}", watch=self._is_kept_watched(f"{parent}/{name}"))
        for name in before:
            address = catalog.address_of(f"{parent}/{name}")
            if name not in names and address is not None:
                if isinstance(address, TopicAddress):
                    self._forget_former(address.path, None)
                self._emit(Observed((absent(address, zxid),)))

"""Are ACLs seen no matter which client writes them, at any time, as far as ZooKeeper lets us?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused
from tests.simulation.reader import Reader
from tests.simulation.zookeeper import MakeNode, Permission, RemoveNode, SetData
from tests.unit.zk.simulated import Ensemble
from zk_layout.catalog import address_of
from zk_layout.facts import Fact
from zk_layout.watched import RIGHTS
from zk_layout.znodes.acls import Acls

FOLDER = "/kafka-acl/Topic"
PATH = f"{FOLDER}/orders"
PREFIXED = "/kafka-acl-extended/prefixed/Group/g r"
ENTRIES = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Read","host":"*"}]}'
NONE = b'{"version":1,"acls":[]}'


class Reading:
    """A reader of ACLs only, and what it has emitted."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.events: list[Event] = []
        self.reader = Reader(self.ensemble.zookeeper, self.ensemble.network, self.events.append, what=RIGHTS)

    def load(self) -> None:
        self.reader.load()
        self.until(lambda: Loaded() in self.events)

    def until(self, holds: Callable[[], object]) -> None:
        self.ensemble.until(holds)

    def last(self, path: str) -> Fact | None:
        """The last report on a znode."""
        latest = [fact for e in self.events if isinstance(e, Observed) for fact in e.facts if fact.address.path == path]
        return latest[-1] if latest else None

    def entries(self, path: str) -> int | None:
        """The number of a znode's entries; None if it does not exist."""
        fact = self.last(path)
        return len(fact.value.entries) if fact is not None and isinstance(fact.value, Acls) else None

    def permit(self, path: str, permission: Permission) -> None:
        self.ensemble.zookeeper.acls[path] = permission


@pytest.fixture
def reading() -> Iterator[Reading]:
    reading = Reading()
    yield reading
    reading.reader.close()


def test_rights_are_read_in_a_cluster_that_has_had_none(reading: Reading) -> None:
    reading.load()
    for path in (PATH, PREFIXED):
        reading.ensemble.zookeeper.make_path(path.rpartition("/")[0])

    reading.ensemble.write(MakeNode(PATH, ENTRIES), MakeNode(PREFIXED, ENTRIES))

    reading.until(lambda: reading.entries(PATH) == 1 and reading.entries(PREFIXED) == 1)


def test_each_change_is_seen_without_a_notification(reading: Reading) -> None:
    reading.ensemble.zookeeper.make_path(FOLDER)
    reading.ensemble.write(MakeNode(PATH, ENTRIES))
    reading.load()
    assert reading.entries(PATH) == 1

    reading.ensemble.write(SetData(PATH, NONE))
    reading.until(lambda: reading.entries(PATH) == 0)

    reading.ensemble.write(RemoveNode(PATH))
    reading.until(lambda: not reading.last(PATH).is_present)  # type: ignore[union-attr]  # it was there

    reading.ensemble.write(MakeNode(PATH, ENTRIES))
    reading.until(lambda: reading.entries(PATH) == 1)


def test_nothing_else_is_read(reading: Reading) -> None:
    reading.ensemble.zookeeper.make_path("/brokers/topics/orders")

    reading.load()

    assert reading.events == [Loaded()]


@pytest.mark.parametrize("path", [FOLDER, PATH])
def test_what_may_not_be_read_is_reported_and_once_it_may_its_facts_come_first(reading: Reading, path: str) -> None:
    reading.ensemble.zookeeper.make_path(FOLDER)
    reading.ensemble.write(MakeNode(PATH, ENTRIES))
    reading.permit(path, Permission.ALL & ~Permission.READ)
    reading.load()
    assert [event.path for event in reading.events if isinstance(event, ReadRefused)] == [path]

    reading.permit(path, Permission.ALL)
    reading.reader.read_again([path])
    reading.until(lambda: ReadAllowed(path) in reading.events)

    assert reading.entries(PATH) == 1
    latest = reading.last(PATH)
    at = next(n for n, event in enumerate(reading.events) if isinstance(event, Observed) and latest in event.facts)
    assert at < reading.events.index(ReadAllowed(path))


def test_what_is_allowed_again_by_a_read_without_a_watch_is_watched_as_before(reading: Reading) -> None:
    """The watch fired while reading was refused, and a transaction of unknown outcome has the znode read once more."""
    reading.ensemble.zookeeper.make_path(FOLDER)
    reading.ensemble.write(MakeNode(PATH, ENTRIES))
    reading.load()
    reading.permit(PATH, Permission.ALL & ~Permission.READ)
    reading.ensemble.write(SetData(PATH, NONE))
    reading.until(lambda: any(isinstance(event, ReadRefused) for event in reading.events))
    reading.permit(PATH, Permission.ALL)
    address = address_of(PATH)
    assert address is not None

    reading.reader.read([address], watch=False)

    reading.until(lambda: ReadAllowed(PATH) in reading.events and reading.entries(PATH) == 0)
    reading.ensemble.write(SetData(PATH, ENTRIES))
    reading.until(lambda: reading.entries(PATH) == 1)

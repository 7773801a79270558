"""Do watches of the simulated ZooKeeper fire as those of a real one? The same tests run on both."""

from __future__ import annotations

import asyncio

from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import protocol
from controller.zk.answers import Change
from controller.zk.bridge import Bridge
from controller.zk.protocol import AddRecursiveWatch, RemoveWatches, SetWatches
from tests.conformance.zookeeper_backends import Backend, Real, Served, stat_of
from tests.simulation.zookeeper import CheckVersion, MakeNode, RemoveNode, SetData
from tests.simulation.zookeeper_watches import Happened, WatchEvent
from zk_layout.ids import Zxid


def test_a_watch_tells_one_change_only(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/a"))
    session.get("/a", watch=True)

    session.multi(SetData("/a", b"1"))
    session.multi(SetData("/a", b"2"))

    assert session.events() == [WatchEvent(Happened.CHANGED, "/a")]


def test_a_watch_on_an_absent_znode_tells_its_creation(backend: Backend) -> None:
    session, other = backend.session(), backend.session()
    session.get("/a", watch=True)

    other.multi(MakeNode("/a"))
    other.multi(SetData("/a", b"1"))

    assert session.events() == [WatchEvent(Happened.CREATED, "/a")]


def test_a_child_watch_tells_who_comes_and_goes_but_not_what_changes(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/p"))
    session.multi(MakeNode("/p/a"))
    session.children("/p", watch=True)

    session.multi(SetData("/p/a", b"1"))
    session.multi(SetData("/p", b"1"))
    assert session.events() == []

    session.multi(MakeNode("/p/b"))
    assert session.events() == [WatchEvent(Happened.CHILDREN, "/p")]


def test_watches_fire_in_the_order_of_the_changes(backend: Backend) -> None:
    session, other = backend.session(), backend.session()
    other.multi(MakeNode("/p"))
    other.multi(MakeNode("/p/a"))
    session.get("/p/a", watch=True)
    session.get("/p/b", watch=True)
    session.children("/p", watch=True)

    other.multi(SetData("/p/a", b"1"))
    other.multi(MakeNode("/p/b"))

    assert session.events() == [
        WatchEvent(Happened.CHANGED, "/p/a"),
        WatchEvent(Happened.CREATED, "/p/b"),
        WatchEvent(Happened.CHILDREN, "/p"),
    ]


def test_a_refused_transaction_fires_no_watch(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/a"))
    session.get("/a", watch=True)

    session.multi(SetData("/a", b"1"), CheckVersion("/a", 9))

    assert session.events() == []


def test_the_watches_of_an_ended_session_are_gone(backend: Backend) -> None:
    leaving, staying = backend.session(), backend.session()
    staying.multi(MakeNode("/a"))
    leaving.get("/a", watch=True)
    leaving.end()

    staying.multi(SetData("/a", b"1"))

    assert staying.events() == []


def test_watches_that_are_set_again_tell_what_has_changed_meanwhile(reached: Served | Real) -> None:
    other = reached.session()
    other.multi(*map(MakeNode, ("/quiet", "/changed", "/deleted", "/parent", "/still", "/gone")))
    since = Zxid(stat_of(other.get("/gone")).czxid)
    other.multi(SetData("/changed", b"1"), RemoveNode("/deleted"), MakeNode("/created"), MakeNode("/parent/child"))
    other.multi(RemoveNode("/gone"))

    changes = asyncio.run(changes_after_set_watches(reached, since))

    assert sorted(changes) == [
        ("/changed", Change.CHANGED),
        ("/created", Change.CREATED),
        ("/deleted", Change.DELETED),
        ("/gone", Change.DELETED),
        ("/parent", Change.CHILDREN),
    ]


async def changes_after_set_watches(reached: Served | Real, since: Zxid) -> list[tuple[str, Change]]:
    bridge, changes = Bridge(ZooKeeperSettings(reached.connect)), list[tuple[str, Change]]()
    await bridge.start()
    bridge.watch_listeners.append(lambda event: changes.append((event.path, event.change)))
    full = bridge.full
    await bridge.ask(
        SetWatches(
            since,
            data=[full("/quiet"), full("/changed"), full("/deleted")],
            existence=[full("/created"), full("/absent")],
            children=[full("/parent"), full("/still"), full("/gone")],
        )
    )
    await bridge.stop()
    return changes


def test_a_recursive_watch_tells_of_every_change_below_until_it_is_removed(reached: Served | Real) -> None:
    """Also of what did not exist, once a change whatever else watches, and never of children."""
    told = asyncio.run(told_below(reached))

    assert told == [
        ("/a/b", Change.CHANGED),
        ("/a/b", Change.CHANGED),
        ("/a/c", Change.CREATED),
        ("/a", Change.CHILDREN),  # by a watch of its own
        ("/a/c/d", Change.CREATED),
        ("/a/c/d", Change.DELETED),
        ("/a", Change.CHANGED),
        ("/a/b", Change.DELETED),
    ]


async def told_below(reached: Served | Real) -> list[tuple[str, Change]]:
    other = reached.session()
    other.multi(MakeNode("/a"), MakeNode("/a/b"), MakeNode("/abc"))
    bridge, told = Bridge(ZooKeeperSettings(reached.connect)), list[tuple[str, Change]]()
    await bridge.start()
    bridge.watch_listeners.append(lambda event: told.append((event.path, event.change)))
    above = bridge.full("/a")
    assert (await bridge.ask(AddRecursiveWatch(above))).code == protocol.OK
    await bridge.get("/a/b", watch=True)
    await bridge.children("/a/b", watch=True)
    await bridge.children("/a", watch=True)
    for change in (
        SetData("/a/b", b"1"), SetData("/abc", b"1"), SetData("/a/b", b"2"), MakeNode("/a/c"), MakeNode("/a/c/d"),
        RemoveNode("/a/c/d"), SetData("/a", b"1"), RemoveNode("/a/b"),
    ):  # fmt: skip
        other.multi(change)
    await bridge.ask(protocol.Sync(above))
    removed = await bridge.ask(RemoveWatches(above))
    again = await bridge.ask(RemoveWatches(above))
    other.multi(SetData("/a", b"2"), MakeNode("/a/b"))
    await bridge.ask(protocol.Sync(above))
    assert (removed.code, again.code) == (protocol.OK, protocol.NO_WATCH)
    await bridge.stop()
    return told


def test_a_recursive_watch_that_is_set_again_tells_nothing_of_the_time_between(reached: Served | Real) -> None:
    async def story() -> list[tuple[str, Change]]:
        other = reached.session()
        other.multi(MakeNode("/a"), MakeNode("/a/b"))
        bridge, told = Bridge(ZooKeeperSettings(reached.connect)), list[tuple[str, Change]]()
        await bridge.start()
        bridge.watch_listeners.append(lambda event: told.append((event.path, event.change)))
        await bridge.ask(AddRecursiveWatch(bridge.full("/a")))
        await bridge.ask(RemoveWatches(bridge.full("/a")))
        other.multi(SetData("/a/b", b"1"))
        await bridge.ask(protocol.Sync("/"))
        await bridge.ask(AddRecursiveWatch(bridge.full("/a")))
        other.multi(SetData("/a/b", b"2"))
        await bridge.ask(protocol.Sync("/"))
        await bridge.stop()
        return told

    assert asyncio.run(story()) == [("/a/b", Change.CHANGED)]

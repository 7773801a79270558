"""The simulated ZooKeeper behaves like a real one: the same tests run on both."""

from __future__ import annotations

import asyncio

import pytest
from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from controller.settings.security import ZooKeeperSecurity
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import protocol
from controller.zk.answers import Reply
from controller.zk.bridge import Bridge
from controller.zk.lives import MARK, Births
from tests.conformance.zookeeper_backends import Backend, Real, Served, stat_of
from tests.simulation.zookeeper import (
    JUTE_MAXBUFFER,
    CheckVersion,
    MakeNode,
    Operation,
    Permission,
    RemoveNode,
    SetData,
    ZkError,
)
from tests.simulation.zookeeper_watches import Happened, WatchEvent


def test_a_version_counts_the_changes_of_the_data(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/a", b"0"))

    versions = [stat_of(session.get("/a")).version]
    for data in (b"1", b"1", b"2"):
        session.multi(SetData("/a", data))
        versions.append(stat_of(session.get("/a")).version)

    assert versions == [0, 1, 2, 3]


def test_a_transaction_gives_everything_in_it_one_zxid(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/a"))

    session.multi(MakeNode("/b"), SetData("/a", b"1"), MakeNode("/b/c"))

    zxids = {stat_of(session.get(path)).mzxid for path in ("/a", "/b", "/b/c")}
    assert len(zxids) == 1
    assert zxids.pop() > stat_of(session.get("/a")).czxid


def test_a_later_write_has_a_higher_zxid_whoever_wrote(backend: Backend) -> None:
    one, other = backend.session(), backend.session()
    one.multi(MakeNode("/a"))
    other.multi(MakeNode("/b"))
    one.multi(SetData("/a", b"1"))

    a, b = stat_of(other.get("/a")), stat_of(one.get("/b"))

    assert a.czxid < b.czxid < a.mzxid


def test_a_znode_created_again_begins_at_version_0_with_a_higher_czxid(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/a"))
    session.multi(SetData("/a", b"1"))
    before = stat_of(session.get("/a"))

    session.multi(RemoveNode("/a"), MakeNode("/a"))

    after = stat_of(session.get("/a"))
    assert (before.version, after.version) == (1, 0)
    assert after.czxid == after.mzxid > before.mzxid


def test_a_transaction_is_written_as_a_whole_or_not_at_all(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/a", b"0"))

    done = session.multi(SetData("/a", b"1"), MakeNode("/b"), SetData("/a", b"2", 0), MakeNode("/c"))

    assert done.errors == (
        ZkError.ROLLED_BACK,
        ZkError.ROLLED_BACK,
        ZkError.BAD_VERSION,
        ZkError.INCONSISTENT,
    )
    assert session.get("/b") is None
    assert session.get("/a") == (b"0", stat_of(session.get("/a")))
    assert stat_of(session.get("/a")).version == 0


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (CheckVersion("/a", 1), ZkError.BAD_VERSION),
        (CheckVersion("/missing", 0), ZkError.NO_NODE),
        (SetData("/a", b"", 1), ZkError.BAD_VERSION),
        (SetData("/missing", b""), ZkError.NO_NODE),
        (MakeNode("/a"), ZkError.NODE_EXISTS),
        (MakeNode("/missing/b"), ZkError.NO_NODE),
        (MakeNode("/ephemeral/b"), ZkError.EPHEMERAL_PARENT),
        (RemoveNode("/a", 1), ZkError.BAD_VERSION),
        (RemoveNode("/parent"), ZkError.NOT_EMPTY),
        (RemoveNode("/missing"), ZkError.NO_NODE),
    ],
    ids=str,
)
def test_the_first_operation_that_cannot_be_done_names_the_error(
    backend: Backend, operation: CheckVersion | SetData | MakeNode | RemoveNode, error: ZkError
) -> None:
    session = backend.session()
    session.multi(MakeNode("/a"), MakeNode("/parent"), MakeNode("/parent/b"), MakeNode("/ephemeral", is_ephemeral=True))

    done = session.multi(CheckVersion("/a", 0), operation, SetData("/a", b"", 7))

    assert done.errors == (ZkError.ROLLED_BACK, error, ZkError.INCONSISTENT)


def test_operations_of_a_transaction_see_those_before_them(backend: Backend) -> None:
    session = backend.session()

    done = session.multi(
        MakeNode("/a"), SetData("/a", b"1", 0), CheckVersion("/a", 1), MakeNode("/a/b"), RemoveNode("/a/b"),
        RemoveNode("/a", 1), MakeNode("/a", b"again"),
    )  # fmt: skip

    assert not done.errors
    found = session.get("/a")
    assert found is not None
    assert (found[0], found[1].version) == (b"again", 0)


def test_a_registration_made_in_two_steps_of_one_transaction_is_at_version_1(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/id", b"", is_ephemeral=True), SetData("/id", b"registration", 0))

    found = session.get("/id")

    assert found is not None
    assert (found[0], found[1].version) == (b"registration", 1)
    assert found[1].czxid == found[1].mzxid


def test_sequential_names_grow_by_one(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/n"))

    made = [session.multi(MakeNode("/n/isr_change_", is_sequential=True)).results[0] for _ in range(3)]

    assert made == [f"/n/isr_change_{i:010d}" for i in range(3)]


def test_a_sequence_goes_on_when_its_znodes_are_deleted(backend: Backend) -> None:
    session = backend.session()
    session.multi(MakeNode("/n"))
    session.multi(MakeNode("/n/e_", is_sequential=True))
    session.multi(RemoveNode("/n/e_0000000000"))

    made = session.multi(MakeNode("/n/e_", is_sequential=True))

    assert made.results == ("/n/e_0000000001",)


def test_ephemeral_znodes_end_with_their_session(backend: Backend) -> None:
    leaving, staying = backend.session(), backend.session()
    leaving.multi(MakeNode("/leaving", is_ephemeral=True), MakeNode("/kept"))
    staying.multi(MakeNode("/staying", is_ephemeral=True))

    leaving.end()

    assert staying.get("/leaving") is None
    assert staying.get("/kept") is not None
    assert stat_of(staying.get("/staying")).owner


def test_all_ephemeral_znodes_of_a_session_end_together(backend: Backend) -> None:
    leaving, staying = backend.session(), backend.session()
    staying.multi(MakeNode("/p"))
    leaving.multi(MakeNode("/p/a", is_ephemeral=True), MakeNode("/p/b", is_ephemeral=True))
    staying.children("/p", watch=True)

    leaving.end()

    assert staying.events() == [WatchEvent(Happened.CHILDREN, "/p")]
    assert staying.children("/p") == ()


def test_taking_over_is_one_transaction_that_nobody_can_get_between(backend: Backend) -> None:
    former, next_one, third = backend.session(), backend.session(), backend.session()
    former.multi(MakeNode("/epoch", b"1"), MakeNode("/controller", b"1", is_ephemeral=True))
    third.get("/controller", watch=True)

    done = next_one.multi(
        SetData("/epoch", b"2", 0), RemoveNode("/controller", 0), MakeNode("/controller", b"2", is_ephemeral=True)
    )

    assert not done.errors
    assert former.multi(CheckVersion("/epoch", 0), MakeNode("/late")).errors == (
        ZkError.BAD_VERSION,
        ZkError.INCONSISTENT,
    )
    former.end()
    found = third.get("/controller")
    assert found is not None
    assert found[0] == b"2"
    assert third.events()[0] == WatchEvent(Happened.DELETED, "/controller")


@pytest.mark.parametrize(
    ("path", "left", "operation"),
    [
        ("/a", Permission.READ, SetData("/a", b"1")),
        ("/a", Permission.READ, MakeNode("/a/b")),
        ("/a", Permission.READ | Permission.CREATE, RemoveNode("/a/c")),
        ("/a", Permission.WRITE, CheckVersion("/a", 0)),
    ],
    ids=str,
)
def test_what_an_acl_forbids_is_refused_in_a_transaction(
    reached: Served | Real, path: str, left: Permission, operation: Operation
) -> None:
    session = reached.session()
    session.multi(MakeNode("/a"), MakeNode("/a/c"), MakeNode("/d"))
    reached.limit(path, left)

    done = session.multi(SetData("/d", b"1"), operation, MakeNode("/e"))

    assert done.errors == (ZkError.ROLLED_BACK, ZkError.NO_AUTH, ZkError.INCONSISTENT)


def test_what_may_not_be_read_says_so_and_can_be_seen_to_exist(reached: Served | Real) -> None:
    session = reached.session()
    session.multi(MakeNode("/a", b"0"))
    reached.limit("/a", Permission.WRITE)

    with pytest.raises(exceptions.NoAuthError):
        session.get("/a")
    with pytest.raises(exceptions.NoAuthError):
        session.children("/a")
    assert session.multi(SetData("/a", b"1")).errors == ()


def test_what_is_to_belong_to_somebody_who_is_not_known_is_not_created(reached: Served | Real) -> None:
    async def created() -> Reply:
        bridge = Bridge(ZooKeeperSettings(reached.connect, security=ZooKeeperSecurity(sets_acl=True)))
        await bridge.start()
        try:
            making = protocol.Create(bridge.full("/absent/a"), acl=bridge.acl("/absent/a"))
            return await bridge.ask(protocol.transaction([protocol.Check(bridge.full("/a"), 0), making]))
        finally:
            await bridge.stop()

    reached.session().multi(MakeNode("/a"))

    assert asyncio.run(created()).value == [0, protocol.INVALID_ACL]


def test_a_request_over_the_limit_costs_the_connection_and_one_at_the_limit_does_not(reached: Served | Real) -> None:
    session = reached.session()
    session.multi(MakeNode("/a"))
    path = reached.full("/a")
    # xid and type, then the lengths of path and data, and the version
    most = JUTE_MAXBUFFER - 8 - 4 - len(path) - 4 - 4

    session.set("/a", bytes(most))

    with pytest.raises(exceptions.ConnectionLoss):
        session.set("/a", bytes(most + 1))
    found = session.get_when_connected("/a")
    assert len(found) == most


def test_no_child_was_created_meanwhile_where_a_sequential_one_gets_the_name_it_must_have(
    reached: Served | Real,
) -> None:
    """A transaction can distinguish two lives of a znode by nothing else."""
    session = reached.session()
    session.multi(MakeNode("/f"), MakeNode("/f/asked", b"first"), MakeNode("/f/other"))
    session.multi(RemoveNode("/f/other"))
    births = asyncio.run(births_of(reached, "/f"))

    session.multi(RemoveNode("/f/asked"), MakeNode("/f/asked", b"second"))
    refused = session.multi(*guarded("/f", births, RemoveNode("/f/asked", 0)))

    assert births == 2
    assert refused.errors == (ZkError.ROLLED_BACK, ZkError.NO_NODE, ZkError.INCONSISTENT)
    assert session.get("/f/asked") is not None
    assert session.multi(*guarded("/f", births + 1, RemoveNode("/f/asked", 0))).errors == ()
    assert session.children("/f") == ()
    assert asyncio.run(births_of(reached, "/f")) == births + 2, "what is created and gone again counts, too"


def guarded(folder: str, births: int, *operations: Operation) -> tuple[Operation, ...]:
    """The guard of `controller.zk.lives`."""
    return MakeNode(f"{folder}/{MARK}", is_sequential=True), RemoveNode(f"{folder}/{MARK}{births:010d}"), *operations


async def births_of(reached: Served | Real, path: str) -> int:
    bridge = Bridge(ZooKeeperSettings(reached.connect))
    await bridge.start()
    births: int = (await bridge.ask(Births(bridge.full(path)))).value
    await bridge.stop()
    return births


def test_who_has_seen_more_than_a_server_is_hung_up_on_and_a_stranger_is_let_in(reached: Served | Real) -> None:
    reached.session().multi(MakeNode("/a"))
    ahead = KazooClient(reached.connect, timeout=4.0)
    ahead.last_zxid = 2**62

    with pytest.raises(KazooTimeoutError):
        ahead.start(timeout=1.5)

    ahead.last_zxid = 0
    ahead.start(timeout=5.0)
    assert ahead.exists("/a")
    ahead.stop()
    ahead.close()

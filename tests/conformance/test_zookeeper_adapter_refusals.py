"""If ZooKeeper does not let a replica read or write, does it go on watching, and know before it claims?

Real servers only: ACLs are theirs.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from controller.core.candidacy.events import Claimed, Event, HolderSeen, HolderUnknown, Lost, StartRefused, Watching
from controller.lab.zookeeper import ZooKeeperServer
from controller.process.claimant import Claimant
from controller.settings import load
from controller.wire.versions import parse_protocol
from controller.zk import inspection, rights
from tests.conformance.adapter_world import connected, register, someone, until
from tests.simulation.stand_ins import NothingWrong

ALL_BUT_READ = dict(create=True, delete=True, write=True, admin=True)
ALL_BUT_WRITE = dict(create=True, delete=True, read=True, admin=True)


@asynccontextmanager
async def standing_by(zookeeper: str) -> AsyncIterator[tuple[Claimant, list[Event]]]:
    """A claimant that watches `/controller`, and all events that it has emitted."""
    events: list[Event] = []
    settings = load(
        None,
        [f"zookeeper.connect={zookeeper}", "broker.id=901", "inter.broker.protocol.version=3.9"],
        {},
        {"inter.broker.protocol.version": parse_protocol},
    )
    claimant = Claimant(settings.claim, NothingWrong(), events.append)
    looking = asyncio.create_task(claimant.reach())
    try:
        await until(lambda: Watching() in events)
        yield claimant, events
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await claimant.close()


@contextmanager
def closed(client: KazooClient, path: str, **rights: bool) -> Iterator[None]:
    """Leave only these rights, by default none, to others than a znode's owner, for a time."""
    owner, others = make_digest_acl("owner", "secret", all=True), make_acl("world", "anyone", **rights)
    client.add_auth("digest", "owner:secret")
    client.set_acls(path, [owner, others] if rights else [owner])
    try:
        yield
    finally:
        client.set_acls(path, OPEN_ACL_UNSAFE)


def test_a_watcher_that_may_not_read_who_leads_says_so_and_goes_on_until_it_may(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            async with standing_by(zookeeper) as (_, events):
                await until(lambda: HolderSeen in map(type, events))
                other.create("/controller", b'{"version":1,"brokerid":3,"timestamp":"7"}', ephemeral=True)
                await until(lambda: isinstance(events[-1], HolderSeen) and events[-1].holder is not None)
                with closed(other, "/controller", **ALL_BUT_READ):
                    other.create("/kafka_zk_controller/released", b"")
                    await until(lambda: HolderUnknown("no permission: /controller") in events)
                other.delete("/kafka_zk_controller/released")
                await until(lambda: isinstance(events[-1], HolderSeen))
                before = len(events)
                other.delete("/controller")
                await until(lambda: any(isinstance(e, HolderSeen) and e.holder is None for e in events[before:]))

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/topics", "/controller_epoch"])
def test_what_no_controller_can_do_without_is_known_before_the_claim(zookeeper: str, path: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            other.ensure_path("/brokers/ids")
            async with standing_by(zookeeper) as (claimant, _):
                assert isinstance(first := await claimant.claim(replace=False), Claimed)
                assert await claimant.give_up(first)
                claimant.doubt()
                with closed(other, path, **ALL_BUT_READ):
                    outcome = await claimant.claim(replace=False)
                    assert isinstance(outcome, Lost)
                    assert outcome.needs_mending
                    assert f"no permission: {path}" in outcome.reason
                    assert other.exists("/controller") is None
                    assert other.get("/controller_epoch")[0] == b"1"
                assert isinstance(await claimant.claim(replace=False), Claimed)

    asyncio.run(story())


def test_an_epoch_that_may_not_be_written_refuses_the_claim_and_nothing_is_left(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            other.create("/controller_epoch", b"7")
            async with standing_by(zookeeper) as (claimant, _):
                with closed(other, "/controller_epoch", **ALL_BUT_WRITE):
                    outcome = await claimant.claim(replace=False)
                    assert isinstance(outcome, Lost)
                    assert outcome.needs_mending
                    assert outcome.reason.startswith("no permission: ")
                    assert outcome.reason.endswith("/controller_epoch")
                    assert other.exists("/controller") is None

    asyncio.run(story())


def test_a_cluster_id_that_may_not_be_read_does_not_undo_a_claim(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            other.create("/cluster/id", b'{"version":"1","id":"abc"}', makepath=True)
            async with standing_by(zookeeper) as (claimant, _):
                with closed(other, "/cluster/id"):
                    assert isinstance(await claimant.claim(replace=False), Claimed)
                    assert claimant.cluster_id is None

    asyncio.run(story())


def test_one_brokers_unreadable_registration_keeps_nobody_from_leading(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            other.ensure_path("/brokers/ids")
            register(other, 5)
            with closed(other, "/brokers/ids/5"):
                async with standing_by(zookeeper) as (claimant, events):
                    assert Watching() in events
                    assert not [event for event in events if isinstance(event, StartRefused)]
                    assert isinstance(await claimant.claim(replace=False), Claimed)

    asyncio.run(story())


def test_what_we_may_do_is_read_from_acls_without_trying(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            other.ensure_path("/brokers/ids")
            other.create("/controller_epoch", b"7")
            async with connected(zookeeper) as bridge:
                assert await inspection.lacking(bridge, ()) == ()
                assert await rights.granted(bridge, "/nothing") is None
                with closed(other, "/controller_epoch", **ALL_BUT_WRITE), closed(other, "/brokers/ids"):
                    found = {(lack.path, lack.right) for lack in await inspection.lacking(bridge, ())}
                assert found >= {("/controller_epoch", "write"), ("/brokers/ids", "create children of")}

    asyncio.run(story())


def test_where_a_cluster_is_and_when_it_was_written_is_seen_without_writing(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            async with connected(f"{zookeeper}/wrong") as bridge:
                assert await inspection.place(bridge) == inspection.Place(None, False, None, ())
                assert await inspection.last_written_ms(bridge, ()) == 0
            assert other.exists("/wrong") is None
            other.create("/cluster/id", b'{"version":"1","id":"abc"}', makepath=True)
            other.create("/brokers/topics/orders", b"", makepath=True)
            other.create("/controller_epoch", b"7")
            async with connected(zookeeper) as bridge:
                seen = await inspection.place(bridge)
                assert (seen.cluster_id, seen.topics) == ("abc", ("orders",))
                assert abs(await inspection.last_written_ms(bridge, ()) / 1000 - time.time()) < 60

    asyncio.run(story())


def test_the_cluster_at_another_chroot_of_the_same_server_is_found(zookeeper_server: ZooKeeperServer) -> None:
    async def story() -> None:
        with someone(zookeeper_server.connect) as other:
            other.create("/here/cluster/id", b"{}", makepath=True)
            async with connected(f"{zookeeper_server.connect}/there") as bridge:
                assert "/here" in await inspection.clusters_elsewhere(bridge)
            other.delete("/here", recursive=True)

    asyncio.run(story())

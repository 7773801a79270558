"""What do the duties for tokens and features change in a real ZooKeeper, through the real reader and writer?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from controller.core.machine import Machine
from controller.core.messages.effects import Commit, Measured, Notice, Read, ReadAgain, ReadChildren, StepDown, Wake
from controller.core.messages.events import Event, Woke
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.single_znodes.unreadable import LookAgain
from controller.zk.reader import Reader
from controller.zk.writer import Writer
from tests.conformance.adapter_world import connected, create_parents, register, someone, until
from zk_layout.ids import BrokerId, ControllerEpoch, ZnodeVersion

TOKENS, CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"
NOW_MS = 1_000_000
OWN = BrokerId(100)
ORDERS = b'{"version":1,"partitions":{"0":[1]}}'


class Term:
    """A machine with nothing but ZooKeeper around it; its clock shows 0 all the time."""

    def __init__(self, settings: MachineSettings) -> None:
        self.machine = Machine(settings, ControllerEpoch(1), SeededRandom(b"seed"))
        self.said: list[Measured | Notice | StepDown] = []
        self.events: list[Event] = []
        self.look_again: LookAgain | None = None
        self.reader: Reader | None = None
        self.writer: Writer | None = None

    def turn(self) -> None:
        """Run one turn, with these events if any."""
        events, self.events[:] = list(self.events), []
        assert self.reader is not None
        assert self.writer is not None
        for effect in self.machine.turn(events, 0.0) if events else ():
            match effect:
                case Commit():
                    self.writer.submit(effect)
                case Read():
                    self.reader.read(effect)
                case ReadChildren():
                    self.reader.read_children(effect)
                case ReadAgain():
                    self.reader.read_again(effect)
                case Wake(LookAgain() as alarm):
                    self.look_again = alarm
                case Measured() | Notice() | StepDown():
                    self.said.append(effect)
                case _:
                    pass

    async def until_said(self, kind: type[Measured | StepDown]) -> None:
        """Run turns until the machine has given a notice of this kind."""

        def is_said() -> bool | None:
            self.turn()
            return any(isinstance(said, kind) for said in self.said) or None

        await until(is_said)

    async def until_everything_may_be_read(self) -> None:
        """Run turns until no read is refused any more."""

        def is_so() -> bool | None:
            self.turn()
            return not any("permission" in sentence for sentence in self.machine.quarantined()) or None

        await until(is_so)

    async def until(self, other: KazooClient, path: str, *, data: bytes | None = None, gone: bool = False) -> None:
        """Run turns until a znode exists, holds this data, or is gone."""

        def is_so() -> bool | None:
            self.turn()
            if other.exists(path) is None:
                return gone or None
            return (not gone and (data is None or other.get(path)[0] == data)) or None

        await until(is_so)


@asynccontextmanager
async def leading(zookeeper: str, settings: MachineSettings) -> AsyncIterator[Term]:
    async with connected(zookeeper) as bridge:
        term = Term(settings)
        term.reader = Reader(bridge, term.events.append, notice=term.said.append)
        term.writer = Writer(bridge, term.events.append, fence_version=ZnodeVersion(0))
        await term.reader.load()
        yield term
        term.reader.stop()


def prepare(client: KazooClient) -> None:
    create_parents(client)
    client.create("/controller_epoch", b"1")
    client.ensure_path(TOKENS)
    client.ensure_path(CHANGES)
    register(client, OWN)


def token(client: KazooClient, name: str, expires_ms: int, ends_ms: int) -> None:
    """A token as Kafka's DelegationTokenManager writes it."""
    data = {
        "version": 3,
        "owner": "User:ann",
        "tokenRequester": "User:ann",
        "renewers": [],
        "issueTimestamp": 0,
        "maxTimestamp": ends_ms,
        "expiryTimestamp": expires_ms,
        "tokenId": name,
    }
    client.create(f"{TOKENS}/{name}", json.dumps(data).encode())


EXPIRING = MachineSettings(own_id=OWN, token_expiry_check_s=60.0, clock_zero_ms=NOW_MS)


def test_expired_tokens_are_deleted_and_named_to_the_brokers(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            token(other, "good", NOW_MS + 1, NOW_MS + 1)
            token(other, "not-renewed", NOW_MS - 1, NOW_MS + 1)
            token(other, "at-its-end", NOW_MS + 1, NOW_MS - 1)
            other.create(f"{TOKENS}/torn", b'{"version":3')

            async with leading(zookeeper, EXPIRING) as term:
                await term.until(other, f"{TOKENS}/at-its-end", gone=True)
                await term.until_said(Measured)

            assert sorted(other.get_children(TOKENS)) == ["good", "torn"]
            notified = sorted(other.get(f"{CHANGES}/{name}")[0] for name in other.get_children(CHANGES))
            assert notified == [b"at-its-end", b"not-renewed"]
            assert all(name.startswith("token_change_0") for name in other.get_children(CHANGES))
            expired = [s.value for s in term.said if isinstance(s, Measured) and "tokens" in s.measure]
            assert expired == [2.0]
            (notice,) = (s for s in term.said if isinstance(s, Notice))
            assert notice.kind == "malformed znode"
            assert notice.text.startswith(f"{TOKENS}/torn: ")

    asyncio.run(story())


def test_tokens_that_may_not_be_read_are_left_alone_and_the_rest_is_read(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            token(other, "hidden", NOW_MS - 1, NOW_MS - 1)
            token(other, "expired", NOW_MS - 1, NOW_MS - 1)
            other.set_acls(f"{TOKENS}/hidden", [make_digest_acl("kafka", "secret", all=True)])

            async with leading(zookeeper, EXPIRING) as term:
                await term.until(other, f"{TOKENS}/expired", gone=True)

            (notice,) = (s for s in term.said if isinstance(s, Notice))
            assert notice.kind == "unreadable znode"
            assert f"{TOKENS}/hidden" in notice.text

            other.set_acls(TOKENS, [make_digest_acl("kafka", "secret", all=True)])
            async with leading(zookeeper, EXPIRING) as term:
                register(other, 1)
                other.create("/brokers/topics/orders", ORDERS)
                await term.until(other, "/brokers/topics/orders/partitions")

            (notice,) = (s for s in term.said if isinstance(s, Notice))
            assert f"permission: {TOKENS} (its children);" in notice.text
            other.add_auth("digest", "kafka:secret")
            for path in (TOKENS, f"{TOKENS}/hidden"):
                other.set_acls(path, OPEN_ACL_UNSAFE)

    asyncio.run(story())


def test_a_real_server_lets_a_term_go_on_without_what_may_not_be_read(zookeeper: str) -> None:
    hidden = ("/brokers/topics/sick", "/admin/delete_topics", "/feature", "/admin/reassign_partitions")

    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            register(other, 1)
            for path in hidden:
                other.ensure_path(path)
                other.set(path, ORDERS if path.endswith("sick") else b"")
                other.set_acls(path, [make_digest_acl("kafka", "secret", all=True)])
            other.add_auth("digest", "kafka:secret")
            other.create("/brokers/topics/orders", ORDERS)

            async with leading(zookeeper, EXPIRING) as term:
                await term.until(other, "/brokers/topics/orders/partitions/0/state")
                texts = [s.text for s in term.said if isinstance(s, Notice) and s.kind == "unreadable znode"]
                assert sorted(path for path in hidden for text in texts if f": {path}" in text) == sorted(hidden)
                assert len(term.machine.quarantined()) == len(hidden)

                for path in hidden:
                    other.set_acls(path, OPEN_ACL_UNSAFE)
                assert term.look_again is not None
                term.events.append(Woke(term.look_again))
                await term.until(other, "/brokers/topics/sick/partitions/0/state")
                await term.until_everything_may_be_read()

    asyncio.run(story())


def test_a_deposed_controller_deletes_nothing(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            token(other, "expired", NOW_MS - 1, NOW_MS - 1)
            other.set("/controller_epoch", b"2")

            async with leading(zookeeper, EXPIRING) as term:
                await term.until_said(StepDown)

            assert other.get_children(TOKENS) == ["expired"]
            assert other.get_children(CHANGES) == []

    asyncio.run(story())


def test_the_feature_znode_follows_the_protocol_version_of_the_brokers(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)

            async with leading(zookeeper, MachineSettings(own_id=OWN, has_feature_versioning=False)) as term:
                await term.until(other, "/feature", data=b'{"version":2,"features":{},"status":0}')
            async with leading(zookeeper, MachineSettings(own_id=OWN)) as term:
                await term.until(other, "/feature", data=b'{"version":2,"features":{},"status":1}')
            assert other.get("/feature")[1].version == 1
            async with leading(zookeeper, MachineSettings(own_id=OWN)) as term:
                for _ in range(20):
                    term.turn()
                    await asyncio.sleep(0.01)
            assert other.get("/feature")[1].version == 1

    asyncio.run(story())

"""What do ACL requests change in a real ZooKeeper, through the real reader and writer?"""

from __future__ import annotations

import asyncio

import pytest
from kazoo.exceptions import BadArgumentsError

from controller.core.acls.rules import is_znode_name
from controller.core.machine import Machine
from controller.core.messages.effects import Answer, Commit, Read
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId, Event
from controller.core.messages.replies import AclCreated, AclsCreated, AclsDeleted, Reply
from controller.core.messages.requests import AclCreation, AclFilter, AclRequest, Caller, CreateAcls, DeleteAcls
from controller.core.seeded_random import SeededRandom
from controller.core.settings import AuthorizerSettings, MachineSettings
from controller.zk.reader import Reader
from controller.zk.writer import Writer
from tests.conformance.adapter_world import connected, create_parents, register, someone, until
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, ZnodeVersion
from zk_layout.watched import watched
from zk_layout.znodes.acls import CHANGES, FOLDERS, AclEntry, AclOperation, Acls, PatternType, PermissionType, decode

OWN = BrokerId(100)
SETTINGS = MachineSettings(own_id=OWN, authorizer=AuthorizerSettings(allows_everyone_if_no_acl_is_found=True))
BOB = AclEntry("User:bob", "*", AclOperation.WRITE, PermissionType.ALLOW)
ANN = AclEntry("User:ann", "*", AclOperation.READ, PermissionType.ALLOW)
OF_ANN = AclCreation(2, "ördërs", 3, "User:ann", "*", 3, 3)
ORDERS = "/kafka-acl/Topic/ördërs"
ALL_OF_ORDERS = AclFilter(2, "ördërs", 3, None, None, 1, 1)


class Term:
    """A machine with nothing but ZooKeeper around it; its clock shows 0 all the time."""

    def __init__(self) -> None:
        self.machine = Machine(SETTINGS, ControllerEpoch(1), SeededRandom(b"seed"))
        self.events: list[Event] = []
        self.replies: dict[CallId, Reply] = {}

    def turn(self, reader: Reader, writer: Writer) -> None:
        """Run one turn, with these events if any."""
        events, self.events[:] = list(self.events), []
        for effect in self.machine.turn(events, 0.0) if events else ():
            match effect:
                case Commit():
                    writer.submit(effect)
                case Read():
                    reader.read(effect)
                case Answer(call, reply):
                    self.replies[call] = reply
                case _:
                    pass


def test_rights_are_written_and_told(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            other.create("/controller_epoch", b"1")
            for path in (*FOLDERS, *CHANGES.values()):
                other.ensure_path(path)
            register(other, OWN)
            async with connected(zookeeper) as bridge:
                term = Term()
                what = watched(follows_reassignments=False, follows_rights=True)
                reader = Reader(bridge, term.events.append, notice=lambda _: None, what=what)
                writer = Writer(bridge, term.events.append, fence_version=ZnodeVersion(0))
                await reader.load()

                async def answered(number: int, request: AclRequest) -> Reply:
                    call = CallId(number)
                    term.events.append(Asked(call, request, Caller("PLAINTEXT", "127.0.0.1")))

                    def is_so() -> bool | None:
                        term.turn(reader, writer)
                        return call in term.replies or None

                    await until(is_so)
                    return term.replies[call]

                # A broker writes between our last look and our write.
                other.create(ORDERS, catalog.encode(Acls((BOB,))))
                assert await answered(1, CreateAcls((OF_ANN,))) == AclsCreated((AclCreated(),))
                assert decode(other.get(ORDERS)[0]) == Acls((BOB, ANN))
                (notification,) = other.get_children(CHANGES[PatternType.LITERAL])
                assert other.get(f"{CHANGES[PatternType.LITERAL]}/{notification}")[0] == "TOPIC:ördërs".encode()

                deleted = await answered(2, DeleteAcls((ALL_OF_ORDERS,)))
                assert isinstance(deleted, AclsDeleted)
                assert [binding.entry for binding in deleted.results[0].deleted] == [BOB, ANN]
                assert other.exists(ORDERS) is None
                assert len(other.get_children(CHANGES[PatternType.LITERAL])) == 2

                absent = await answered(3, DeleteAcls((ALL_OF_ORDERS,)))
                assert isinstance(absent, AclsDeleted)
                assert (absent.results[0].error, absent.results[0].deleted) == (ErrorCode.NONE, ())
                assert len(other.get_children(CHANGES[PatternType.LITERAL])) == 2
                reader.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    "character",
    [0x01, 0x1F, 0x20, 0x2A, 0x7E, 0x7F, 0x9F, 0xA0, 0xD7FF, 0xE000, 0xF8FF, 0xF900, 0xFFEF, 0xFFF0, 0xFFFD, 0x1F600],
)
def test_names_that_zookeeper_takes_are_known(zookeeper: str, character: int) -> None:
    name = f"a{chr(character)}"
    with someone(zookeeper) as other:
        if is_znode_name(name):
            other.create(f"/{name}")
        else:
            with pytest.raises(BadArgumentsError):
                other.create(f"/{name}")

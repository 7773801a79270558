"""What load brings every kind of transaction, or what Kafka writes, into a server's log while snapshots are taken?"""

from __future__ import annotations

import random
from itertools import groupby
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from controller.zk.kazoo_internals import send
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import history_rows, survey
from zk_layout.storage import operations as ops
from zk_layout.storage.jute import OPEN_ACL, encode_bytes, encode_text
from zk_layout.storage.operations import CREATE_CONTAINER, CREATE_TTL, Row

PERSISTENT_WITH_TTL, CONTAINER = 5, 4
NATIVE = Path(__file__).parents[1] / "fixtures" / "native" / "kafka-2.4.1"
PARENTS = ("/load", "/load/a", "/load/b", "/load/ephemeral")


class _Create(NamedTuple):
    """A creation that kazoo has no call for."""

    type: int
    path: str
    flags: int
    tail: bytes

    def serialize(self) -> bytes:
        body = encode_text(self.path) + encode_bytes(b"") + OPEN_ACL
        return body + pack(">i", self.flags) + self.tail

    @classmethod
    def deserialize(cls, _: bytes, __: int) -> None:
        return None


def create_container(client: KazooClient, path: str) -> None:
    _call(client, _Create(CREATE_CONTAINER, path, CONTAINER, b""))


def create_with_ttl(client: KazooClient, path: str, ttl_ms: int) -> None:
    _call(client, _Create(CREATE_TTL, path, PERSISTENT_WITH_TTL, pack(">q", ttl_ms)))


def _call(client: KazooClient, request: _Create) -> None:
    answer = client.handler.async_result()
    send(client, request, answer)
    answer.get(timeout=20)


def connect(address: str, timeout_s: float = 60) -> KazooClient:
    client = KazooClient(address, timeout=timeout_s)
    client.start()
    return client


def work(address: str, rounds: int, seed: int = 1) -> None:
    """Writes of every kind through several sessions, of which one is closed in each round."""
    rng = random.Random(seed)
    client = connect(address)
    for parent in PARENTS:
        client.ensure_path(parent)
    create_container(client, "/load/container")
    create_with_ttl(client, "/load/expiring", 3_600_000)
    for number in range(rounds):
        visitor = connect(address)
        for place in range(3):
            visitor.create(f"/load/ephemeral/e{number}-{place}", b"here", ephemeral=True)
        pending = [_write(client, rng, number) for _ in range(200)]
        _refused(client, number)
        client.set_acls("/load/a", [*OPEN_ACL_UNSAFE, make_digest_acl("u", f"p{number}", read=True)])
        visitor.stop()
        visitor.close()
        for answer in pending:
            _settled(answer)
    stays = connect(address)
    stays.create("/load/ephemeral/stays", b"", ephemeral=True)
    client.sync("/")


def _write(client: KazooClient, rng: random.Random, number: int) -> Any:
    path = f"/load/{rng.choice('ab')}/n{rng.randrange(40)}"
    match rng.randrange(6):
        case 0 | 1:
            return client.create_async(path, b"born %d" % number)
        case 2:
            return client.delete_async(path)
        case 3:
            return _transaction(client, path, number).commit_async()
        case _:
            return client.set_async(path, b"changed %d \xff" % number)


def _transaction(client: KazooClient, path: str, number: int) -> TransactionRequest:
    transaction = client.transaction()
    transaction.check("/load", 0)
    transaction.create(f"{path}-multi", b"multi")
    transaction.set_data("/load/b", b"%d" % number)
    if number % 2:
        transaction.delete(f"{path}-multi")
    return transaction


def _refused(client: KazooClient, number: int) -> None:
    transaction = client.transaction()
    transaction.create(f"/load/refused-{number}", b"")
    transaction.check("/load", 99)
    transaction.set_data("/load/a", b"never")
    transaction.commit()


def _settled(answer: Any) -> None:
    try:
        answer.get(timeout=20)
    except KazooException:
        return


class Kafka:
    """What Kafka's own controller and its brokers once wrote, written again, by as many sessions."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._sessions: dict[int, KazooClient] = {}
        rows = history_rows(survey(stored_files([str(NATIVE)])), [])
        self._transactions = [list(parts) for _, parts in groupby(rows, key=lambda row: row[0])]
        self._done = 0

    def work(self, until: float) -> None:
        """Go on until this share of all is written."""
        end = round(until * len(self._transactions))
        for parts in self._transactions[self._done : end]:
            self._write(parts)
        self._done = end

    def close(self) -> None:
        """End all sessions."""
        for client in self._sessions.values():
            client.stop()
            client.close()

    def _write(self, parts: list[Row]) -> None:
        session, kind = parts[0][2], parts[0][4]
        if kind == ops.CREATE_SESSION:
            self._sessions[session] = connect(self._address)
        elif kind == ops.CLOSE_SESSION:
            if (client := self._sessions.pop(session, None)) is not None:
                client.stop()
                client.close()
        elif kind != ops.ERROR and all(row[12] is None for row in parts):
            transaction = self._sessions[session].transaction()
            for row in parts:
                _add(transaction, row)
            failed = [answer for answer in transaction.commit() if isinstance(answer, Exception)]
            assert not failed, (parts, failed)


def _add(transaction: TransactionRequest, row: Row) -> None:
    op, path, data, version, owner = row[6:11]
    match op:
        case ops.CREATE:
            transaction.create(path, data or b"", ephemeral=owner != 0)
        case ops.SET_DATA:
            transaction.set_data(path, data or b"")
        case ops.DELETE:
            transaction.delete(path)
        case ops.CHECK:
            transaction.check(path, version - 1)

"""Write large transaction logs, as a busy cluster would leave them: `python -m tests.benchmarks.big_logs KIND FILE N`.

small: N transactions that change partition states, half of them fenced as a controller's, with a move now and
then. large: a topic of N / 2 partitions moved one by one, N rewrites of its znode: 7,880 make 1.7 GB.
restarts: N transactions of brokers that are restarted one after the other, each a leader or a member of the ISR of
1,000 of 10,000 partitions: their states as Kafka's controller and their leaders write them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from struct import pack
from zlib import adler32

from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.jute import encode_bytes, encode_text

START_MS = 1_790_000_000_000
FENCE = zk.check("/controller_epoch", 2)
BROKERS = 30


def small(count: int, topics: int = 500, partitions: int = 20) -> Iterator[bytes]:
    """Every partition's ISR shrinks and grows again; its epoch rises now and then."""
    number = 0
    states: list[tuple[bytes, int]] = []
    zxid = 0
    for body in _beginning():
        zxid += 1
        yield zk.header(zxid, ops.CREATE, 7, 0, START_MS) + body
    for t in range(topics):
        topic = f"topic-{t:04d}"
        replicas = ",".join(
            f'"{p}":[{(t + p) % BROKERS},{(t + p + 1) % BROKERS},{(t + p + 2) % BROKERS}]' for p in range(partitions)
        )
        parts = [
            (ops.CREATE, zk.create(f"/brokers/topics/{topic}", b'{"version":2,"partitions":{%s}}' % replicas.encode()))
        ]
        for p in range(partitions):
            path = f"/brokers/topics/{topic}/partitions/{p}/state"
            a = (t + p) % BROKERS
            parts.append((ops.CREATE, zk.create(path, _state(a, 0, f"{a},{(a + 1) % BROKERS},{(a + 2) % BROKERS}"))))
            states.append((encode_text(path), a))
        zxid += 1
        yield zk.header(zxid, ops.MULTI, 7, 0, START_MS) + zk.multi(*parts)
    epochs, versions = [0] * len(states), [0] * len(states)
    while zxid < count:
        at = number * 7919 % len(states)
        encoded_path, a = states[at]
        version = versions[at]
        number += 1
        zxid += 1
        versions[at] = version + 1
        is_fenced = number % 2 == 0
        if is_fenced:
            epochs[at] += 1
        isr = f"{a},{(a + 1) % BROKERS}" if version % 2 == 0 else f"{a},{(a + 1) % BROKERS},{(a + 2) % BROKERS}"
        body = encoded_path + encode_bytes(_state(a, epochs[at], isr)) + pack(">i", version + 1)
        time_ms = START_MS + zxid
        if is_fenced:
            yield zk.header(zxid, ops.MULTI, 7, number, time_ms) + zk.multi((ops.CHECK, FENCE), (ops.SET_DATA, body))
        else:
            yield zk.header(zxid, ops.SET_DATA, 9, number, time_ms) + body


def large(count: int) -> Iterator[bytes]:
    """All moves start one by one, then end one by one, as under Kafka's controller."""
    partitions = count // 2
    zxid = 0
    for body in _beginning():
        zxid += 1
        yield zk.header(zxid, ops.CREATE, 7, 0, START_MS) + body
    path = "/brokers/topics/wide"
    entries = [b'"%d":[1001,1002,1003]' % p for p in range(partitions)]
    adding: dict[int, bytes] = {}
    removing: dict[int, bytes] = {}
    zxid += 1
    yield zk.header(zxid, ops.CREATE, 7, 0, START_MS) + zk.create(path, _topic(entries, adding, removing))
    for p in range(partitions):
        zxid += 1
        body = zk.create(f"{path}/partitions/{p}/state", _state(1001, 0, "1001,1002,1003"))
        yield zk.header(zxid, ops.CREATE, 7, 0, START_MS) + body
    for written in range(count):
        p, is_end = written % partitions, written >= partitions
        if is_end:
            entries[p] = b'"%d":[1004,1005,1006]' % p
            del adding[p], removing[p]
        else:
            entries[p] = b'"%d":[1004,1005,1006,1001,1002,1003]' % p
            adding[p], removing[p] = b'"%d":[1004,1005,1006]' % p, b'"%d":[1001,1002,1003]' % p
        writes = [(path, _topic(entries, adding, removing), written + 1)]
        state = f"{path}/partitions/{p}/state"
        if is_end:
            writes.insert(0, (state, _state(1004, 2, "1004,1005,1006"), 3))
        else:
            writes.append((state, _state(1001, 1, "1001,1002,1003"), 1))
            writes.append((state, _state(1001, 1, "1001,1002,1003,1004,1005,1006"), 2))
        for where, data, version in writes:
            zxid += 1
            parts = zk.multi((ops.CHECK, FENCE), (ops.SET_DATA, zk.set_data(where, data, version)))
            yield zk.header(zxid, ops.MULTI, 7, zxid, START_MS + zxid * 10) + parts


class _Placed:
    """A partition: its replicas, the preferred first, its leader, leader epoch, ISR and version."""

    def __init__(self, topic: int, partition: int, replicas: list[int]) -> None:
        self.replicas, self.leader, self.epoch, self.isr, self.version = replicas, replicas[0], 0, replicas, 0
        self.path = f"/brokers/topics/topic-{topic:04d}/partitions/{partition}/state"

    def state(self) -> bytes:
        """Its state as JSON."""
        return _state(self.leader, self.epoch, ",".join(map(str, self.isr)))

    def set(self, zxid: int, *, session: int, is_fenced: bool) -> bytes:
        """The transaction that writes it."""
        self.version += 1
        body = zk.set_data(self.path, self.state(), self.version)
        made = zk.multi((ops.CHECK, FENCE), (ops.SET_DATA, body)) if is_fenced else body
        return zk.header(zxid, ops.MULTI if is_fenced else ops.SET_DATA, session, zxid, START_MS + zxid) + made


def restarts(count: int, topics: int = 500, partitions: int = 20) -> Iterator[bytes]:
    """Each broker stops cleanly, returns, catches up, and leads its preferred partitions again."""
    random = Random(7)
    zxid = 0
    for body in _beginning():
        zxid += 1
        yield zk.header(zxid, ops.CREATE, 7, 0, START_MS) + body
    placed: list[_Placed] = []
    for t in range(topics):
        of_topic = [_Placed(t, p, random.sample(range(BROKERS), 3)) for p in range(partitions)]
        replicas = ",".join(f'"{p}":{one.replicas}' for p, one in enumerate(of_topic)).replace(" ", "")
        topic = zk.create(f"/brokers/topics/topic-{t:04d}", b'{"version":2,"partitions":{%s}}' % replicas.encode())
        zxid += 1
        parts = ((ops.CREATE, topic), *((ops.CREATE, zk.create(one.path, one.state())) for one in of_topic))
        yield zk.header(zxid, ops.MULTI, 7, 0, START_MS) + zk.multi(*parts)
        placed += of_topic
    for number in range(count):
        for body in _restart(number % BROKERS, placed, zxid):
            zxid += 1
            yield body
            if zxid >= count:
                return


def _restart(broker: int, placed: list[_Placed], zxid: int) -> Iterator[bytes]:
    own = [one for one in placed if broker in one.replicas]
    for one in own:
        one.isr = [other for other in one.isr if other != broker]
        if one.leader == broker:
            one.leader, one.epoch = one.isr[0], one.epoch + 1
        zxid += 1
        yield one.set(zxid, session=7, is_fenced=True)
    for kind, body in ((ops.CLOSE_SESSION, zk.closed(f"/brokers/ids/{broker}")), (ops.CREATE, _registration(broker))):
        zxid += 1
        yield zk.header(zxid, kind, 100 + broker, 1, START_MS + zxid) + body
    for one in own:
        one.isr = [*one.isr, broker]
        zxid += 1
        yield one.set(zxid, session=100 + one.leader, is_fenced=False)
    for one in own:
        if one.replicas[0] == broker:
            one.leader, one.epoch = broker, one.epoch + 1
            zxid += 1
            yield one.set(zxid, session=7, is_fenced=True)


def _beginning() -> Iterator[bytes]:
    for broker in (*range(BROKERS), *range(1001, 1007)):
        yield _registration(broker)
    yield zk.create("/controller_epoch", b"1")
    yield zk.create("/controller", b'{"version":1,"brokerid":1,"timestamp":"0"}', ephemeral=True)


def _registration(broker: int) -> bytes:
    registered: bytes = zk.create(
        f"/brokers/ids/{broker}", b'{"endpoints":["PLAINTEXT://b:9092"],"version":5}', ephemeral=True
    )
    return registered


def _topic(entries: list[bytes], adding: dict[int, bytes], removing: dict[int, bytes]) -> bytes:
    maps = (b",".join(entries), b",".join(adding.values()), b",".join(removing.values()))
    return b'{"version":2,"partitions":{%s},"adding_replicas":{%s},"removing_replicas":{%s}}' % maps


def _state(leader: int, epoch: int, isr: str) -> bytes:
    text = f'{{"controller_epoch":1,"leader":{leader},"version":1,"leader_epoch":{epoch},"isr":[{isr}]}}'
    return text.encode()


def write(kind: str, target: Path, count: int) -> int:
    """The size of the log in bytes."""
    bodies = {"small": small, "large": large, "restarts": restarts}[kind](count)
    with target.open("wb") as file:
        file.write(zk.LOG_HEADER)
        held: list[bytes] = []
        size = 0
        for body in bodies:
            held += (pack(">Qi", adler32(body), len(body)), body, b"B")
            size += len(body)
            if size > 8 << 20:
                file.write(b"".join(held))
                held, size = [], 0
        file.write(b"".join(held) + bytes(4096))
    return target.stat().st_size


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

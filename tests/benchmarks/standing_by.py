"""What do warm standbys cost ZooKeeper: watches, heap, and processor time for each state written?"""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from msgspec import Struct

from controller.following.standby import WarmFacts
from controller.lab.java import find_java
from controller.lab.zookeeper import ZooKeeperServer
from controller.lab.zookeeper import ZooKeeperSettings as ServerSettings
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader
from tests.benchmarks.filling import FIRST_EPOCH, Shape, fill
from tests.benchmarks.machine import usage, wait_until_quiet
from zk_layout.ids import ControllerEpoch, LeaderEpoch, PartitionId
from zk_layout.watched import watched
from zk_layout.znodes import partition_state
from zk_layout.znodes.partition_state import PartitionState, StateAddress

WRITES_IN_FLIGHT = 50
_LOOK_S = 0.05
_HEAP = re.compile(r"(?:generation|heap)\s+total \d+K, used (\d+)K")
_WATCHES = re.compile(r"Total watches:(\d+)")


class StoodBy(Struct, frozen=True):
    """Some standbys, and the states that were written meanwhile.

    Shape:
        `heap_mib` is what ZooKeeper keeps after a garbage collection, None where no JDK is found. `others_s` is the
        time that other processes used within `measured_s`.

    Units:
        `warm_s` is processor time of ZooKeeper until all standbys were warm, `per_write_us` for each write until all
        knew it.
    """

    partitions: int
    standbys: int
    is_recursive: bool
    watches: int
    heap_mib: float | None
    warm_s: float
    writes: int
    per_write_us: float
    others_s: float
    measured_s: float


class Standbys:
    """Standbys, each with a session and all topics, on an event loop in a separate thread."""

    def __init__(self, connect: str, *, is_recursive: bool) -> None:
        self._connect = connect
        self._is_recursive = is_recursive
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._bridges: list[Bridge] = []
        self._facts: list[WarmFacts] = []
        self._thread.start()

    def begin(self, count: int) -> None:
        """Return when all are warm."""
        for _ in range(count):
            asyncio.run_coroutine_threadsafe(self._begin_one(), self._loop).result()

    def know(self, zxid: int) -> bool:
        """Whether all have read what was written up to there."""
        return all(facts.as_of >= zxid and not facts.states.due_count for facts in self._facts)

    def end(self) -> None:
        """Close all sessions."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _begin_one(self) -> None:
        bridge = Bridge(ZooKeeperSettings(self._connect))
        self._bridges.append(bridge)
        await bridge.start()
        facts = WarmFacts(bridge, watched(), BulkReader(bridge), is_recursive=self._is_recursive)
        await facts.prepare()
        self._facts.append(facts)

    async def _end(self) -> None:
        for facts in self._facts:
            facts.stop()
        for bridge in self._bridges:
            await bridge.stop()


@contextmanager
def standing_by(connect: str, count: int, *, is_recursive: bool) -> Iterator[Standbys]:
    """So many standbys."""
    standbys = Standbys(connect, is_recursive=is_recursive)
    try:
        standbys.begin(count)
        yield standbys
    finally:
        standbys.end()


def measure(
    server: ZooKeeperServer,
    zookeeper: KazooClient,
    shape: Shape,
    *,
    standbys: int,
    is_recursive: bool,
    epoch: int,
    patience_s: float,
) -> StoodBy:
    """Write each state once, with a leader epoch of its own for each call, while so many standbys follow."""
    assert server.process.pid is not None
    quiet_since = {"ZooKeeper": server.process.pid}
    wait_until_quiet(patience_s)
    first = usage(quiet_since)
    with standing_by(server.connect, standbys, is_recursive=is_recursive) as followers:
        warm = usage(quiet_since)
        found = _WATCHES.search(server.ask("wchs"))
        heap_mib = _heap_mib(server.process.pid)
        before = usage(quiet_since)
        zxid = _write(zookeeper, shape, epoch)
        while not followers.know(zxid):
            time.sleep(_LOOK_S)
        after = usage(quiet_since)
    used = after.since(before)
    return StoodBy(
        partitions=shape.partitions,
        standbys=standbys,
        is_recursive=is_recursive,
        watches=int(found[1]) if found else 0,
        heap_mib=heap_mib,
        warm_s=round(warm.since(first).by_process["ZooKeeper"], 2),
        writes=shape.partitions,
        per_write_us=round(used.by_process["ZooKeeper"] / shape.partitions * 1e6, 1),
        others_s=round(used.others_s, 2),
        measured_s=round(used.at, 2),
    )


@contextmanager
def server_with(shape: Shape) -> Iterator[Callable[..., StoodBy]]:
    """A ZooKeeper server full of partitions; yields `measure` for it."""
    with TemporaryDirectory(prefix="kafka-zk-controller-bench-") as directory:
        settings = ServerSettings(java_options=("-Xmx2g",), fsync=True)
        server = ZooKeeperServer(Path(directory) / "zookeeper", settings=settings)
        zookeeper = KazooClient(server.connect, timeout=60)
        with server:
            try:
                zookeeper.start(timeout=60)
                fill(zookeeper, shape)
                yield partial(measure, server, zookeeper, shape)
            finally:
                zookeeper.stop()
                zookeeper.close()


def _write(zookeeper: KazooClient, shape: Shape, epoch: int) -> int:
    """Write all states one by one, many in flight; the zxid of the last one."""
    in_flight: deque[IAsyncResult] = deque()
    zxid = 0
    for name in shape.names:
        for number in range(shape.partitions_per_topic):
            isr = shape.replicas(number)
            state = PartitionState(isr[0], LeaderEpoch(epoch), ControllerEpoch(FIRST_EPOCH), isr)
            path = StateAddress(name, PartitionId(number)).path
            in_flight.append(zookeeper.set_async(path, partition_state.encode(state)))
            if len(in_flight) > WRITES_IN_FLIGHT:
                in_flight.popleft().get()
    while in_flight:
        zxid = in_flight.popleft().get().mzxid
    return zxid


def _heap_mib(pid: int) -> float | None:
    jcmd = find_java().executable.with_name("jcmd")
    if not jcmd.exists():
        return None
    _, shown = (
        subprocess.run((jcmd, str(pid), command), capture_output=True, text=True, check=True).stdout
        for command in ("GC.run", "GC.heap_info")
    )
    return round(sum(map(int, _HEAP.findall(shown))) / 1024, 1)

"""How does a replica announce itself and its state to operators and tools? By an ephemeral znode of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib import metadata

from controller.http.status import Status
from controller.runtime.supervision import Troubles, reason_of
from controller.zk import preparation, protocol
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.protocol import Node
from zk_layout.codec import Undecodable
from zk_layout.ids import BrokerId, SessionId
from zk_layout.znodes import replicas
from zk_layout.znodes.replicas import Replica, ReplicaAddress

LOOK_EVERY_S = 1.0
WAIT_S = 10.0
SAME_ID_AFTER_S = 60.0  # our own former session has expired by then
PART = "announcing"


def http_address(http: tuple[str, int]) -> str:
    """Where a replica's HTTP port is, as its znode names it; empty without one."""
    host, port = http
    return f"{f'[{host}]' if ':' in host else host}:{port}" if port else ""


class _SameId(Exception):
    """Another process announces itself under our id, and its znode has stayed for longer than a former session's."""


class ReplicaZnode:
    """Keeps `/kafka_zk_controller/replicas/<id>` up to date, in each session of this process.

    Nothing depends on it: a replica that may not write there can still lead.
    """

    def __init__(
        self,
        own_id: BrokerId,
        bridge: Callable[[], Bridge | None],
        status: Callable[[], Status],
        http: tuple[str, int],
        troubles: Troubles | None = None,
    ) -> None:
        """`bridge` is the connection to ZooKeeper, None while nothing may be written there."""
        self._address = ReplicaAddress(own_id)
        self._bridge = bridge
        self._status = status
        self._http = http_address(http)
        self._host = socket.gethostname()
        self._release = metadata.version("kafka-zk-controller")
        self._written: tuple[SessionId, Replica] | None = None
        self._other: tuple[SessionId, float] | None = None  # whose the znode is instead, and since when
        self._troubles = troubles or Troubles()
        self._troubles.expect(PART)

    async def keep(self) -> None:
        """Write every change, until cancelled."""
        while True:
            wait_s = LOOK_EVERY_S
            try:
                await self._tell()
            except (Disconnected, SessionEnded):
                pass  # the next session starts over
            except _SameId as error:
                wait_s = WAIT_S
                self._troubles.wrong(PART, "another process has the same broker.id", str(error))
            except Exception as error:
                wait_s = WAIT_S
                self._troubles.wrong(PART, "this replica is not shown by `status`", reason_of(error))
            await asyncio.sleep(wait_s)

    async def _tell(self) -> None:
        bridge, status = self._bridge(), self._status()
        wanted = Replica(
            status.phase,
            status.is_ready,
            int(status.since * 1000),
            status.reason,
            self._release,
            self._host,
            self._http,
            status.is_paused,
            answers_challenges=True,
        )
        if bridge is None or not bridge.session or self._written == (bridge.session, wanted):
            return
        session, path = bridge.session, self._address.path
        node, _ = await bridge.get(path)
        found = None if node is None else node.stat
        data = replicas.encode(wanted)
        if found is None:
            create = protocol.Create(bridge.full(path), data, ephemeral=True, acl=bridge.acl(path))
            reply = await bridge.read(create)
            if reply.code == protocol.NO_NODE:
                await preparation.create_missing(bridge, replicas.ROOT)
                reply = await bridge.read(create)
        elif found.owner == session:
            reply = await bridge.read(protocol.SetData(bridge.full(path), data, found.version))
        else:
            assert node is not None
            self._note_other(node)
            return
        self._other = None
        if reply.code == protocol.OK:
            self._written = session, wanted
            self._troubles.right(PART)
        elif reply.code not in (protocol.NODE_EXISTS, protocol.NO_NODE, protocol.BAD_VERSION):
            raise Refused(path, reply.code)

    def _note_other(self, node: Node) -> None:
        """The znode is another session's: our own former one's, which expires, or another process'.

        Raises:
            _SameId: it has lasted for too long to be our own.
        """
        now = asyncio.get_running_loop().time()
        if self._other is None or self._other[0] != node.stat.owner:
            self._other = node.stat.owner, now
        if now - self._other[1] < SAME_ID_AFTER_S:
            return
        try:
            shown = replicas.decode(node.data)
            whose = f"a process on host {shown.host or 'unknown'} with HTTP port {shown.http or 'unknown'}"
        except Undecodable:
            whose = "a process that shows itself unreadably"
        raise _SameId(f"{whose} keeps {self._address.path}; give every replica a broker.id of its own")

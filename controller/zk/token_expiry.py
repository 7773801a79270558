"""Which delegation tokens have expired? They are deleted, and the brokers told, as long as a reign lasts.

Brokers create, renew and describe tokens themselves; only their expiry is the controller's duty. No secret is needed: a
token's znode holds none.

Source: KIP-48; Kafka's DelegationTokenManager.expireTokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from controller.core.effects import Measured, Notice
from controller.zk import protocol
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge
from zk_layout.codec import Undecodable
from zk_layout.ids import ZnodeVersion
from zk_layout.znodes import delegation_tokens
from zk_layout.znodes.controller import ControllerEpochAddress

_UNSEEN = frozenset({protocol.NO_NODE, protocol.BAD_VERSION})


class TokenExpiry:
    """The expiry of one reign; its writes are fenced as those of the machine are."""

    def __init__(
        self,
        bridge: Bridge,
        fence_version: ZnodeVersion,
        measured: Callable[[Measured], None],
        notice: Callable[[Notice], None],
    ) -> None:
        """Nothing runs yet. `fence_version` is that of `/controller_epoch` after our election."""
        self._bridge = bridge
        self._fence = protocol.Check(bridge.full(ControllerEpochAddress().path), fence_version)
        self._measured = measured
        self._notice = notice

    async def keep_expiring(self, every_s: float) -> None:
        """Look now and then until cancelled, or until the session or the reign is over.

        Units:
            `every_s` is in seconds: Kafka's delegation.token.expiry.check.interval.ms.
        """
        while True:
            try:
                if not await self.expire(int(time.time() * 1000)):
                    return
            except SessionEnded:
                return
            except Disconnected:
                continue  # a transaction of unknown outcome: look again
            except Refused as error:
                self._notice(Notice("refused", f"delegation tokens cannot be expired: {error}"))
            await asyncio.sleep(every_s)

    async def expire(self, now_ms: int) -> bool:
        """Delete every token whose time is over; False once another controller rules.

        Raises:
            Disconnected, SessionEnded, Refused: no answer, or not the expected one.
        """
        names, _ = await self._bridge.children(delegation_tokens.ROOT)
        for name in sorted(names or ()):
            path = f"{delegation_tokens.ROOT}/{name}"
            node, _ = await self._bridge.get(path)
            if node is None:
                continue
            try:
                times = delegation_tokens.decode(node.data)
            except Undecodable as error:
                self._notice(Notice("malformed znode", f"{path}: {error}; it is left alone"))
                continue
            if delegation_tokens.is_expired(times, now_ms) and not await self._delete(name, node.stat.version):
                return False
        return True

    async def _delete(self, name: str, version: ZnodeVersion) -> bool:
        bridge = self._bridge
        path = bridge.full(f"{delegation_tokens.ROOT}/{name}")
        change = protocol.Create(
            bridge.full(delegation_tokens.CHANGE), name.encode(), acl=bridge.settings.acl, sequential=True
        )
        reply = await bridge.ask(protocol.transaction((self._fence, protocol.Delete(path, version), change)))
        if reply.code != protocol.OK:
            raise Refused(path, reply.code)
        refused = protocol.refusal(reply.value)
        if refused is None:
            self._measured(Measured("delegation_tokens_expired"))
            return True
        at, code = refused
        if at == 0:
            return False
        if at == 1 and code in _UNSEEN:
            return True  # renewed or gone meanwhile
        raise Refused(path, code)

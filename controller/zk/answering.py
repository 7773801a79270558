"""How does a leader show a standby that doubts it that it lives?

It watches for a challenge, and writes to it at once, without having read it, in a transaction with its fence: a leader
that has been replaced, or a challenge that has been answered, lets the transaction fail. The order goes ahead of all
others that wait to be sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from controller.core.candidacy import events
from controller.zk import protocol
from controller.zk.answers import Change, Disconnected, Reply, SessionEnded, WatchEvent
from controller.zk.bridge import Bridge
from zk_layout.ids import BrokerId, ZnodeVersion
from zk_layout.znodes import challenge
from zk_layout.znodes.challenge import UNANSWERED, Challenge, ChallengeAddress
from zk_layout.znodes.controller import ControllerEpochAddress

_CHALLENGE: Final = ChallengeAddress.path
_OF_THE_CHALLENGE: Final = 1

_log = structlog.get_logger(__name__)


class Answering:
    """Answers challenges from `begin` to `end`, while this process holds `/controller`.

    `tell` is called on the event loop when one has been received, and when it is known to be answered.
    """

    def __init__(
        self,
        bridge: Bridge,
        own_id: BrokerId,
        fence: ZnodeVersion,
        tell: Callable[[events.Challenged | events.ChallengeAnswered], None],
    ) -> None:
        self._bridge = bridge
        self._own_id = own_id
        self._fence = fence
        self._tell = tell
        self._has_ended = False

    def begin(self) -> None:
        """Watch for challenges. One that stands already is answered."""
        self._bridge.watch_listeners.append(self._on_watch)
        self._look()

    def end(self) -> None:
        """Answer none any more."""
        self._has_ended = True
        if self._on_watch in self._bridge.watch_listeners:
            self._bridge.watch_listeners.remove(self._on_watch)

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path == _CHALLENGE:
            if event.change is Change.CREATED:
                self._answer()
            self._look()

    def _look(self) -> None:
        self._bridge.submit(protocol.Exists(self._bridge.full(_CHALLENGE), watch=True), self._looked, ahead=True)

    def _looked(self, reply: Reply) -> None:
        if self._has_ended or isinstance(reply.failure, SessionEnded):
            return
        if isinstance(reply.failure, Disconnected):
            self._look()
        elif reply.code not in (protocol.OK, protocol.NO_NODE):
            reason = protocol.error_name(reply.code)
            _log.warning("challenges of standbys cannot be watched, so none is answered", reason=reason)
        elif reply.value is not None and reply.value.version == UNANSWERED:
            self._answer()

    def _answer(self) -> None:
        self._tell(events.Challenged())
        full, data = self._bridge.full, challenge.encode(Challenge(self._own_id, int(time.time() * 1000)))
        operations = (
            protocol.Check(full(ControllerEpochAddress.path), self._fence),
            protocol.SetData(full(_CHALLENGE), data, UNANSWERED),
        )
        self._bridge.submit(protocol.transaction(operations), self._answered, ahead=True)

    def _answered(self, reply: Reply) -> None:
        if reply.failure is not None or reply.code != protocol.OK:
            return  # unknown: if the challenge stands unanswered, the next look shows it
        refused = protocol.refusal(reply.value)
        if refused is None:
            _log.warning("a standby doubted that this leader lives; answered its challenge")
        if refused is None or (refused[0] == _OF_THE_CHALLENGE and not self._has_ended):
            self._tell(events.ChallengeAnswered())

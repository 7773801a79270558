"""How large may a request to ZooKeeper be, what do controllers believe, and what cannot be written therefore?

In some worlds the servers' limit is low, so that ordinary topics come near it; in some of those it is lower than
the controllers' setting.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from controller.core.messages.effects import Notice
from controller.zk import protocol
from controller.zk.writer import DEFAULT_REQUEST_BYTES
from tests.simulation.broken import Broken
from tests.simulation.zookeeper_server import Cursor
from zk_layout import catalog
from zk_layout.ids import ControllerEpoch, TopicName
from zk_layout.znodes.admin import LegacyReassignmentAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress

if TYPE_CHECKING:
    from tests.simulation.world import World

LIMITS = (1_300, 1_800, 2_600, 4_000)
PARTITION_BYTES = 16
# A server hangs up on too large a request: everything in flight is lost, so it must not be retried all the time.
HANG_UPS = 12
WITHIN_S = 60.0
GUARD_BYTES = 250  # of a request for a znode whose folder others share; the core does not count them

_header = struct.Struct(">ii")


class Sizes:
    """The limits of one world, and the writes that exceeded them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/sizes")
        self.believed_bytes = world.zookeeper.frame_limit = DEFAULT_REQUEST_BYTES
        self.is_tight = self.random.random() < 0.15
        if self.is_tight:
            self.believed_bytes = world.zookeeper.frame_limit = self.random.choice(LIMITS)
            if self.random.random() < 0.35:
                world.zookeeper.frame_limit = int(self.believed_bytes * self.random.uniform(0.75, 0.99))
        self._too_large: dict[str, None] = {}
        self._given_up: dict[str, None] = {}
        self._hung_up_at: dict[tuple[str, ControllerEpoch], list[float]] = {}

    @property
    def is_misconfigured(self) -> bool:
        """Whether the servers' limit is lower than controllers believe."""
        return self.world.zookeeper.frame_limit < self.believed_bytes

    def width(self, usual: int) -> int:
        """The number of a new topic's partitions: in a tight world, now and then just below or above the limit."""
        if not self.is_tight or self.believed_bytes > LIMITS[-2] or self.random.random() > 0.08:
            return usual
        return int(self.random.uniform(0.3, 1.1) * self.believed_bytes / PARTITION_BYTES)

    def noticed(self, notice: Notice) -> None:
        """A controller reports that it cannot write something.

        Raises:
            Broken: ZooKeeper takes as much.
        """
        if notice.kind not in ("oversized znode", "lower size limit"):
            return
        words = notice.text.replace(",", "").split()
        taken_bytes = self.world.zookeeper.frame_limit - GUARD_BYTES * self.is_misconfigured
        if int(words[words.index("bytes") - 1]) <= taken_bytes:
            raise Broken(f"this is not too large: {notice.text}")
        if notice.kind == "oversized znode":
            self._too_large[words[1]] = self._given_up[words[1]] = None

    def oversized(self, name: str, frame: bytes) -> None:
        """A server got too large a frame, and hangs up.

        Raises:
            Broken: the sender knew the limit, or sends such frames again and again.
        """
        if len(frame) > self.believed_bytes:
            raise Broken(f"{name} sent ZooKeeper a request of {len(frame)} bytes")
        _, kind = _header.unpack_from(frame)
        if kind != protocol.Transaction.type:
            raise Broken(f"{name} sent ZooKeeper {len(frame)} bytes for a request {kind} that could be smaller")
        operations = Cursor(frame, _header.size).operations()
        self._too_large.update(dict.fromkeys(operation.path for operation in operations))
        self.world.say(name, f"sends {len(frame)} bytes, which are too many, for {operations[-1].path}")
        now = self.world.clock.now
        # Each term learns the limit by itself (decision 99).
        term = name, self.world.checker.current_epoch()
        times = self._hung_up_at[term] = [at for at in self._hung_up_at.get(term, ()) if at > now - WITHIN_S] + [now]
        if self.world.is_peaceful and len(times) > HANG_UPS:
            raise Broken(f"{name} made servers hang up {len(times)} times within a minute")

    # promises that do not hold

    def is_too_large(self, topic: TopicName) -> bool:
        """Whether a write of a topic was too large."""
        return topic in self._topics(self._too_large)

    def excuses(self, path: str) -> bool:
        """Whether a znode may be outdated because its write was too large."""
        return path in self._too_large

    def excuses_statuses(self) -> bool:
        """Whether the shortest status of a request was too large."""
        return any(isinstance(catalog.address_of(path), ReassignmentStatusAddress) for path in self._given_up)

    def excuses_legacy(self) -> bool:
        """Whether the legacy znode was too large."""
        return self.excuses(LegacyReassignmentAddress().path)

    @staticmethod
    def _topics(paths: Iterable[str]) -> dict[TopicName, None]:
        addresses = (catalog.address_of(path) for path in paths)
        return {a.topic: None for a in addresses if a is not None and hasattr(a, "topic")}

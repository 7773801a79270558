"""How does a standby keep the cluster's topics in memory, so that after a claim it reads only what has changed?

It follows topics and the states of their partitions, which are nearly all that there is to read. The rest, such as
brokers, requests and notifications, is read after the claim, by every term.

Why nothing is missed: let Z be the zxid of the claim. Each topic and each state was read after a watch for its next
change had been set, or is to be read again (`Reader`, `StateWatch`). ZooKeeper sends a session the event of a change
before any answer that is as of this change or later, so all events up to Z come before the answer to the claim; both
arrive in one queue (`Bridge`). So when a claim is known to be accepted, each change up to Z has been folded, or its
znode is marked, or a read of it is under way that was sent after its event. `load` awaits the reads under way, and then
reads what is marked. What is read for the first time then is as new as Z anyway. After a lost connection the bridge has
the server compare each watch with the last zxid that it received, before anything else is asked. No facts survive their
session: in the next one everything is read again.

A recursive watch for all states tells as much as one for each, in the same order. It is set before anything is read and
a state that it reports before that state was read is read again (`StateWatch`). But it reports no change made between
two connections: for those, the server compares each state as it does without it (`Watches`).

Source: none in Kafka, whose standby brokers know nothing of a cluster that they do not lead. ZooKeeper's guarantees of
order: "ZooKeeper Programmer's Guide", what it guarantees about watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from controller.core.messages.effects import Notice
from controller.core.messages.events import Event, Observed
from controller.core.state.cluster import ClusterState
from controller.following.facts import Facts
from controller.runtime.reclaiming import collect, dismantle, loading
from controller.runtime.supervision import Troubles, supervised
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader
from controller.zk.state_watch import StateWatch
from zk_layout.ids import Zxid
from zk_layout.watched import Watched
from zk_layout.znodes import topics

PART: Final = "keeping the standby warm"
BEGIN_AFTER_S: Final = 2.0
"""After another controller was first seen to lead: it reads the same at that time."""
AGAIN_AFTER_S: Final = 1.0
_LET_GO_AT_ONCE: Final = 5_000

_log = structlog.get_logger(__name__)


class WarmFacts(Facts):
    """Facts whose topics are followed before there is a term. Of the other facts `load` reads everything."""

    def __init__(self, bridge: Bridge, what: Watched, bulk: BulkReader, *, is_recursive: bool = False) -> None:
        """Nothing is read before `prepare`. `is_recursive` as for `StateWatch`."""
        super().__init__(bridge, what, folded=_drop_changes, bulk=bulk)
        self._bridge = bridge
        self.states = StateWatch(bridge, self.reader.read, is_recursive=is_recursive)
        self._said: list[Notice] = []
        self.is_whole = self.is_taken = False
        self.as_of = Zxid(0)
        """The zxid of the last answer from which something was folded."""

    async def prepare(self) -> None:
        """Read all topics and states, and follow them from then on.

        Raises:
            SessionEnded: the session has expired.
            Refused: ZooKeeper does not let us list the topics.
        """
        since = await self.states.prepare()
        await self.reader.prepare(topics.ROOT)
        await self.states.begin(since)
        self.is_whole = not self.reader.has_ended

    async def load(self) -> None:
        """Read what has changed and all that was not followed, then emit `Loaded`; raises as `Facts.load`."""
        try:
            await self.reader.load(self.states.stop)
        finally:
            self.states.stop()

    def stop(self) -> None:
        """Read nothing more."""
        self.states.stop()
        self.reader.stop()

    def hand_over(self, emit: Callable[[Event], None], notice: Callable[[Notice], None]) -> ClusterState:
        """As `Facts.hand_over`; `notice` also receives what there was to notice before."""
        state = super().hand_over(emit, notice)
        for said in self._said:
            notice(said)
        return state

    def _say(self, notice: Notice) -> None:
        super()._say(notice)
        if not self.is_taken:
            self._said.append(notice)

    def _hear(self, event: Event) -> None:
        super()._hear(event)
        if isinstance(event, Observed):
            self.as_of = self._bridge.seen_zxid
            self.states.saw(event.facts)


class Standby:
    """Keeps warm facts while another controller leads, and gives them to the term that follows."""

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        what: Watched,
        request_bytes: int,
        troubles: Troubles | None = None,
        *,
        is_recursive: bool = False,
    ) -> None:
        """`bridge` returns the current connection to ZooKeeper, and `what` is what a term watches. Requests have at
        most `request_bytes`. With `is_recursive` one watch stands for those of all states, where ZooKeeper knows such
        watches."""
        self._bridge = bridge
        self._what = what
        self._request_bytes = request_bytes
        self._troubles = troubles or Troubles()
        self._is_recursive = is_recursive
        self._may_begin = asyncio.Event()
        self._facts: WarmFacts | None = None
        self._is_let_go = asyncio.Event()

    def note(self, *, is_led_by_another: bool) -> None:
        """Whether this process stands by while another controller leads: only then facts begin to be kept."""
        if is_led_by_another:
            self._may_begin.set()
        else:
            self._may_begin.clear()

    async def follow(self) -> None:
        """Keep facts until cancelled, in one session after the other."""
        await supervised(PART, self._follow_once, self._troubles, again_after_s=AGAIN_AFTER_S, expected=(SessionEnded,))

    def take(self, what: Watched) -> Facts | None:
        """The facts for a term whose claim has been accepted, in the session of the claim. None, and nothing is kept
        any more, if they are of another session, not complete yet, or of something else than `what`."""
        facts, self._facts = self._facts, None
        self._may_begin.clear()
        self._is_let_go.set()
        if facts is None:
            return None
        if facts.is_whole and not facts.reader.has_ended and what == self._what:
            facts.is_taken = True
            known, due = facts.state.placement.partition_count, facts.states.due_count
            _log.info("the standby knows the topics; only what has changed is read", partitions=known, states_due=due)
            return facts
        facts.stop()
        return None

    def figures(self) -> dict[str, float]:
        """The gauges of a standby; zero without facts."""
        facts = self._facts
        if facts is None or not facts.is_whole:
            return dict.fromkeys(("standby_partitions", "standby_states_due", "standby_zxid"), 0)
        return {
            "standby_partitions": facts.state.placement.partition_count,
            "standby_states_due": facts.states.due_count,
            "standby_zxid": facts.as_of,
        }

    async def _follow_once(self) -> None:
        await self._may_begin.wait()
        await asyncio.sleep(BEGIN_AFTER_S)
        if not self._may_begin.is_set():
            return
        bridge = self._bridge()
        bulk = BulkReader(bridge, request_bytes=self._request_bytes)
        facts = self._facts = WarmFacts(bridge, self._what, bulk, is_recursive=self._is_recursive)
        self._is_let_go.clear()
        keeping = asyncio.ensure_future(self._keep(facts))
        letting_go = asyncio.ensure_future(self._is_let_go.wait())
        try:
            await asyncio.wait([keeping, letting_go], return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
        finally:
            letting_go.cancel()
            keeping.cancel()
            await asyncio.wait([keeping])
            if self._facts is facts:
                self._facts = None
                facts.stop()
            if not facts.is_taken:  # else the term lets go of them
                await dismantle(_Untaken(facts.state))
            if facts.is_whole and not facts.is_taken:
                collect()

    async def _keep(self, facts: WarmFacts) -> None:
        with loading():
            await facts.prepare()
        self._troubles.right(PART)
        topic_count, is_recursive = len(facts.state.topics.views), facts.states.is_recursive
        _log.info("standing by with all topics in memory", topics=topic_count, has_recursive_watch=is_recursive)
        await facts.reader.wait()


class _Untaken:
    """A state that no term has got."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def let_go(self) -> bool:
        """Release a part of it; True if some is left."""
        return self._state.let_go(_LET_GO_AT_ONCE)


def _drop_changes(state: ClusterState) -> None:
    """Drop what a standby's facts have changed: no duty follows it before a term, and it would pile up."""
    state.take_changes()

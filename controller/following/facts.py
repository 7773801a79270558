"""What has one session shown of the cluster: who reads it, what does it come to, and who folds it?"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.effects import Notice
from controller.core.messages.events import Event
from controller.core.state.cluster import ClusterState
from controller.zk.bulk import BulkReader
from controller.zk.reader import Reader
from controller.zk.reads import Reads
from zk_layout.watched import Watched


class Facts:
    """A reader, and the state that is folded from what it reads. The process makes them, whether or not it leads.

    While no term has them, each event is folded here. After `hand_over` the term hears the events instead and folds
    them in its turns, so that its turns stay bounded and its journal whole. The state then belongs to that term, which
    amends it and ends with events that it has not folded: no other term is given it afterwards.
    """

    def __init__(
        self,
        bridge: Reads,
        what: Watched,
        *,
        notice: Callable[[Notice], None] = lambda _: None,
        folded: Callable[[ClusterState], None] = lambda _: None,
        bulk: BulkReader | None = None,
    ) -> None:
        """`notice` hears of names that are none of Kafka's; `folded` is called after each event that is folded here."""
        self.state = ClusterState()
        self.reader = Reader(bridge, self._hear, notice=self._say, bulk=bulk, what=what)
        self._emit: Callable[[Event], None] = self._fold
        self._notice = notice
        self._folded = folded

    def hand_over(self, emit: Callable[[Event], None], notice: Callable[[Notice], None]) -> ClusterState:
        """From now on `emit` hears what is read; the state as it was folded until now. Once only."""
        assert self._emit == self._fold, "another term has had these facts"
        self._emit, self._notice = emit, notice
        return self.state

    async def load(self) -> None:
        """Read everything, and say `Loaded`; what changes afterwards is read by itself, until the reader is stopped.

        Raises:
            SessionEnded: the session expired meanwhile.
            Refused: ZooKeeper does not let us list what is indispensable.
        """
        await self.reader.load()

    def _hear(self, event: Event) -> None:
        self._emit(event)

    def _say(self, notice: Notice) -> None:
        self._notice(notice)

    def _fold(self, event: Event) -> None:
        self.state.fold(event)
        self._folded(self.state)

"""Which facts has one ZooKeeper session read, and who folds them?"""

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
    """A reader and the state folded from it. The process makes them, whether or not it leads.

    Until `hand_over` each event is folded here. Afterwards the term receives the events and folds them in its turns, so
    that its turns stay bounded and its journal complete. The state then belongs to that term, which amends it and may
    end with events that it has not folded: no other term gets it.
    """

    def __init__(
        self,
        bridge: Reads,
        what: Watched,
        *,
        folded: Callable[[ClusterState], None] = lambda _: None,
        bulk: BulkReader | None = None,
    ) -> None:
        """`folded` is called after each event folded here. Names that Kafka does not use are the term's to report."""
        self.state = ClusterState()
        self.reader = Reader(bridge, self._hear, notice=self._say, bulk=bulk, what=what)
        self._emit: Callable[[Event], None] = self._fold
        self._notice: Callable[[Notice], None] = lambda _: None
        self._folded = folded

    def hand_over(self, emit: Callable[[Event], None], notice: Callable[[Notice], None]) -> ClusterState:
        """Send `emit` every later event, and return the state as folded so far. Works once."""
        assert self._emit == self._fold, "these facts were handed over before"
        self._emit, self._notice = emit, notice
        return self.state

    async def load(self) -> None:
        """Read everything, then emit `Loaded`. Later changes are read as they happen, until the reader is stopped.

        Raises:
            SessionEnded: the session has expired.
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

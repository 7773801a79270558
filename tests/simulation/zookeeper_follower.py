"""What does a lagging ZooKeeper server show?

Whole transactions, late, in the leader's order. The leader orders or refuses its clients' writes at once, and
knows which sessions may reconnect.

Source: FollowerRequestProcessor, CommitProcessor, Learner.validateSession and FinalRequestProcessor of ZooKeeper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tests.simulation.zookeeper import Multi, Operation, Transaction, ZooKeeper
from zk_layout.ids import SessionId, Zxid


class Follower(ZooKeeper):
    """A server with its own tree and watches, up to date with the leader at its start.

    `learned` is called for each transaction that waits to be applied, with `apply_next` or `catch_up`.
    """

    def __init__(self, leader: ZooKeeper, learned: Callable[[], None] = lambda: None) -> None:
        super().__init__(lambda *_: None, lambda *_: None)
        self.leader = leader
        self.nodes = {path: node.copy() for path, node in leader.nodes.items()}
        self.zxid = leader.zxid
        self.acls, self.hidden = leader.acls, leader.hidden
        self._learned = learned
        self._log: deque[Transaction] = deque()
        self._waiting: deque[tuple[Zxid, Callable[[], None]]] = deque()
        leader.learners.append(self)

    def learn(self, transaction: Transaction) -> None:
        """Take the next transaction, without showing it yet."""
        self._log.append(transaction)
        self._learned()

    def apply_next(self) -> None:
        """Show one more transaction: fire watches, then answer those who waited for it."""
        transaction = self._log.popleft()
        attached = None
        if transaction.ended is not None:
            self.watches.forget(transaction.ended)
            attached = self.attached.pop(transaction.ended, None)
        for operation in transaction.operations:
            self._apply(transaction.session, operation, transaction.zxid)
        self.zxid = transaction.zxid
        if attached is not None:
            attached.expired()
        while self._waiting and self._waiting[0][0] <= self.zxid:
            self._waiting.popleft()[1]()

    def catch_up(self) -> None:
        """Show everything."""
        while self._log:
            self.apply_next()

    def when_applied(self, zxid: Zxid, act: Callable[[], None]) -> None:
        """Act as soon as this server has applied the leader's order up to there."""
        if zxid <= self.zxid:
            act()
        else:
            self._waiting.append((zxid, act))

    def open_session(self) -> SessionId:
        """A new session, opened by the leader."""
        return self.leader.open_session()

    def close_session(self, session: SessionId) -> None:
        """The leader ends a session; here that shows later."""
        self.leader.close_session(session)

    def multi(self, session: SessionId, operations: Sequence[Operation]) -> Multi:
        """The leader carries it out; here it shows later."""
        return self.leader.multi(session, operations)

    def _touch(self, session: SessionId) -> None:
        """A connected client may read, until the server applies the end of its session."""

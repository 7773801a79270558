"""Which transactions are in flight, and what became of them?

Owns everything between a proposal and its outcome: packing, size limits, reads after a failure, and the wait before the
next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

from msgspec import Struct, field

from controller.core.messages.effects import Commit, Create, Delete, Write
from controller.core.messages.events import Again, Alarm, CommitId
from controller.core.messages.outbox import Outbox
from controller.core.scheduling.quarantine import Quarantine, described
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.transactions.back_off import AT_ONCE, wait_s
from controller.core.transactions.losses import Losses
from controller.core.transactions.packing import Packing, Piece
from controller.core.transactions.proposal import (
    TOPIC,
    Accepted,
    Outcome,
    Proposal,
    Refused,
    Subject,
    TooLarge,
    Unwritable,
)
from controller.core.transactions.sizes import RequestSizes, SizeWarnings
from zk_layout.catalog import Address
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import TopicName, ZnodeVersion, Zxid
from zk_layout.watched import watched
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import Topic, TopicAddress, TopicRemnantAddress


class TryAgain(Alarm, frozen=True):
    """A subject may be retried after repeated refusals."""

    subject: Subject


class Proposer(Protocol):
    """The part of a duty that transactions need to know."""

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """The outcome of a proposal; its facts have been folded."""

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """The wait after too many refusals is over."""


class _UnderWay(Struct, eq=False):
    """A proposal without an outcome yet, and what it still waits for.

    Shape:
        `later` holds the pieces, by rank, that are sent once all earlier ones are committed.
    """

    proposer: Proposer
    proposal: Proposal
    later: list[Piece] = field(default_factory=list)
    outstanding: int = 0
    has_failed: bool = False
    may_be_written: bool = False
    refused: dict[Address, None] = field(default_factory=dict)
    unread: dict[Address, None] = field(default_factory=dict)


SHARED_FOLDERS = watched(follows_reassignments=True).families
PROOFS = TopicAddress | StateAddress | ReplicaDeletionsAddress
UNKNOWN = Zxid(0)  # creation zxid of a znode that we wrote, while unknown


class _Flight(Struct, frozen=True, eq=False):
    """A transaction without an answer. `alone` is its subject if it has one piece only."""

    commit: Commit
    concerned: tuple[_UnderWay, ...]
    size_bytes: int
    alone: Subject | None


class _Doubt(Struct, eq=False):
    """A transaction whose outcome is unknown, with what reads of its znodes have shown since.

    Shape:
        `unseen` are the znodes not read again yet. `untouched` are those that were unchanged when read, before any
        changed one; `is_touched` says that a changed one was found. `is_proven`: a znode has the value that the
        transaction wrote.
    """

    flight: _Flight
    writes: Mapping[Address, Write]
    unseen: dict[Address, None]
    untouched: dict[Address, None] = field(default_factory=dict)
    is_touched: bool = False
    is_proven: bool = False


class Transactions:
    """The transactions of one term."""

    def __init__(
        self,
        sizes: RequestSizes,
        quarantine: Quarantine,
        most_writes: int = WRITES_A_TRANSACTION,
        *,
        counts_refusals: bool = True,
    ) -> None:
        """Begin with none in flight. `quarantine` receives the errors of duties that handle an outcome. Unless it
        `counts_refusals`, a conflict never makes a subject wait."""
        self._counts_refusals = counts_refusals
        self._last = 0
        self._flights: dict[CommitId, _Flight] = {}
        self._under_way: dict[Subject, _UnderWay] = {}
        self._awaited: dict[Address, list[_UnderWay]] = {}
        self._doubts: dict[Address, list[_Doubt]] = {}
        self._refusals: dict[Subject, int] = {}
        self._waiting: dict[Subject, list[_UnderWay]] = {}
        self._ripe: list[_UnderWay] = []
        self._busy_topics: set[TopicName] = set()
        self._half_read_topics: dict[TopicName, None] = {}
        self._packing = Packing(sizes, most_writes)
        self._sizes = sizes
        self._size_warnings = SizeWarnings(sizes)
        self._losses = Losses(sizes)
        self._last_lost = CommitId(0)
        self._largest_lost_bytes = 0
        self._quarantine = quarantine

    # ---- what duties ask ------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of unanswered transactions."""
        return len(self._flights)

    @property
    def busy_topics(self) -> set[TopicName]:
        """The topics with a proposal under way."""
        return self._busy_topics

    def is_busy(self, subject: Subject) -> bool:
        """Whether a proposal about this subject is under way."""
        return subject in self._under_way

    def is_waiting(self, subject: Subject) -> bool:
        """Whether the subject must wait for its next attempt after repeated refusals."""
        return subject in self._waiting

    def may_propose(self, subject: Subject) -> bool:
        """Whether the subject is neither under way nor waiting."""
        return subject not in self._under_way and subject not in self._waiting

    def refusals(self, subject: Subject) -> int:
        """How many consecutive proposals about the subject ZooKeeper has refused."""
        return self._refusals.get(subject, 0)

    @property
    def half_read_topics(self) -> Mapping[TopicName, None]:
        """The topics for which only some znodes of a failed transaction have been read again."""
        return self._half_read_topics

    # ---- sending --------------------------------------------------------------------------------------------

    def send(self, proposer: Proposer, proposals: Sequence[Proposal], out: Outbox) -> None:
        """Send a duty's proposals; settle at once those that must not be sent.

        Independent proposals share transactions, to save round trips. A proposal that was refused last time travels
        alone, so that it cannot fail others with it. Of a proposal that had to be cut, only the first part is sent now.

        Raises:
            ValueError: another proposal about the same subject is under way.
        """
        ready: list[Piece] = []
        for proposal in proposals:
            step = _UnderWay(proposer, proposal)
            made = self._pieces(proposal, out)
            if isinstance(made, Unwritable):
                self._postpone(step, out)
                out.wake(Again(), out.now)  # no transaction is under way that would cause the next turn
                self._report(step, made, out)
                continue
            for subject in (proposal.subject, *proposal.holds):
                if subject in self._under_way:
                    raise ValueError(f"two proposals about {subject.text} at once")
                self._under_way[subject] = step
                if subject.kind == TOPIC:
                    self._busy_topics.add(TopicName(subject.name))
            step.later = made
            ready += _next_of(step)
        for load in self._packing.loads(ready):
            self._commit(load, out)

    def _pieces(self, proposal: Proposal, out: Outbox) -> list[Piece] | Unwritable:
        try:
            made = list(self._packing.pieces(proposal, is_alone=proposal.subject in self._refusals))
        except Exception as error:
            message = f"{proposal.subject.text} cannot be written: {described(error)}"
            self._quarantine.put(f"the write of {proposal.subject.text}", described(error), out)
            return Unwritable(message)
        if not self._size_warnings.may_be_news(max(piece.size_bytes for piece in made)):
            return made
        too_large = self._size_warnings.refusal(chain.from_iterable(piece.operations for piece in made), out)
        return made if too_large is None else TooLarge(too_large)

    def _commit(self, load: Sequence[Piece], out: Outbox) -> None:
        self._last += 1
        operations = tuple(made for piece in load for made in piece.operations)
        commit = Commit(CommitId(self._last), operations, tuple(why for piece in load for why in piece.why))
        concerned = {id(step): step for step in (self._under_way[piece.proposal.subject] for piece in load)}
        for step in concerned.values():
            step.outstanding += 1
        size_bytes = self._sizes.empty_bytes + sum(piece.size_bytes for piece in load)
        alone = load[0].proposal.subject if len(load) == 1 else None
        self._flights[commit.commit] = _Flight(commit, tuple(concerned.values()), size_bytes, alone)
        out.add(commit)

    def writes(self, commit: CommitId) -> tuple[Write, ...]:
        """The writes of a transaction in flight."""
        flight = self._flights.get(commit)
        return () if flight is None else flight.commit.writes

    # ---- outcomes -------------------------------------------------------------------------------------------

    def committed(self, commit: CommitId) -> Commit:
        """Note that ZooKeeper accepted a transaction."""
        flight = self._flights.pop(commit)
        self._losses.accepted(flight.size_bytes)
        for step in flight.concerned:
            self._losses.answered(step.proposal.subject, flight.size_bytes)
            step.outstanding -= 1
            step.may_be_written = True
            self._ripe.append(step)
        return flight.commit

    def failed(self, commit: CommitId, look_at: Iterable[Address] | None, out: Outbox) -> None:
        """Read the znodes of a failed transaction again; the facts then decide."""
        flight = self._flights.pop(commit)
        addresses = _to_read(look_at or (write.address for write in flight.commit.writes))
        for step in flight.concerned:
            step.outstanding -= 1
            step.has_failed = True
            step.may_be_written |= look_at is None
            step.refused.update(dict.fromkeys(addresses))
            step.unread.update(dict.fromkeys(addresses))
            if step.unread and step.proposal.subject.kind == TOPIC:
                self._half_read_topics[TopicName(step.proposal.subject.name)] = None
            self._ripe.append(step)
        for address in addresses:
            self._awaited.setdefault(address, []).extend(flight.concerned)
        if addresses:
            out.read(addresses)
        if look_at is not None:
            for step in flight.concerned:
                self._losses.answered(step.proposal.subject, flight.size_bytes)
        else:
            self._blame(flight, out)
            read = frozenset(addresses)
            writes = {w.address: w for w in flight.commit.writes if w.address in read}
            doubt = _Doubt(flight, writes, dict.fromkeys(writes))
            for address in writes:
                self._doubts.setdefault(address, []).append(doubt)

    def _blame(self, flight: _Flight, out: Outbox) -> None:
        """Note that a connection was lost, if this is the largest of the transactions lost with it."""
        if flight.commit.commit > self._last_lost:
            self._last_lost, self._largest_lost_bytes = CommitId(self._last), 0
        largest = max((other.size_bytes for other in self._flights.values()), default=0)
        if flight.size_bytes <= max(largest, self._largest_lost_bytes):
            return
        self._largest_lost_bytes = flight.size_bytes
        path = max(flight.commit.operations, key=self._sizes.write_bytes).write.address.path
        if self._losses.lost(flight.size_bytes, flight.alone, path, out) and flight.alone is not None:
            self._refusals.pop(flight.alone, None)  # the next attempt is another one

    @property
    def awaits_reads(self) -> bool:
        """Whether anything waits for a read of some znode."""
        return bool(self._doubts or self._awaited)

    def saw(self, address: Address, fact: Fact | None, out: Outbox) -> list[tuple[Commit, Zxid]]:
        """Release what waited for a read of this znode.

        Returns the transactions whose acceptance by ZooKeeper this read proves, with their zxids. One readable znode is
        enough, even if the others cannot be read: they contain what was written with it.
        """
        proven: list[tuple[Commit, Zxid]] = []
        for doubt in self._doubts.pop(address, ()):
            write = doubt.writes[address]
            if not doubt.is_proven:
                if fact is None:
                    self._doubts.setdefault(address, []).append(doubt)  # it may become readable before the others are
                elif _is_written(write, fact):
                    doubt.is_proven = True
                    self._losses.accepted(doubt.flight.size_bytes)
                    proven.append((doubt.flight.commit, fact.as_of))
            if address in doubt.unseen:
                del doubt.unseen[address]
                self._compare(doubt, write, fact, out)
        for step in self._awaited.pop(address, ()):
            step.unread.pop(address, None)
            if not step.unread and step.proposal.subject.kind == TOPIC:
                self._half_read_topics.pop(TopicName(step.proposal.subject.name), None)
            self._ripe.append(step)
        return proven

    def _compare(self, doubt: _Doubt, write: Write, fact: Fact | None, out: Outbox) -> None:
        """Read again the znodes that may have been read before the transaction, since another was read after it.

        The answering server may have lagged behind. A session that has seen one write of a transaction sees all of it.
        """
        if fact is None or not _is_before(write, fact):
            doubt.is_touched = True
        elif not doubt.is_touched:
            doubt.untouched[write.address] = None
        if doubt.unseen or not (doubt.is_touched and doubt.untouched):
            return
        for step in doubt.flight.concerned:
            step.unread.update(doubt.untouched)
        for at in doubt.untouched:
            self._awaited.setdefault(at, []).extend(doubt.flight.concerned)
        out.read(tuple(doubt.untouched))

    def settle(self, out: Outbox) -> None:
        """Send the next part of proposals that were cut, and report the outcome of those that are complete.

        Their subjects are free again.
        """
        self._losses.look(out.now)
        ripe, self._ripe = self._ripe, []
        for step in ripe:
            proposal = step.proposal
            if step.outstanding or step.unread or self._under_way.get(proposal.subject) is not step:
                continue
            if step.later and not step.has_failed:
                for load in self._packing.loads(_next_of(step)):
                    self._commit(load, out)
                continue
            for subject in (proposal.subject, *proposal.holds):
                del self._under_way[subject]
                if subject.kind == TOPIC:
                    self._busy_topics.discard(TopicName(subject.name))
            self._report(step, self._refused(step, out) if step.has_failed else self._accepted(step), out)

    def _report(self, step: _UnderWay, outcome: Outcome, out: Outbox) -> None:
        """Report the outcome to the duty that proposed it; if that fails, only this subject is quarantined."""
        what = f"what follows from writing {step.proposal.subject.text}"
        self._quarantine.attempt(what, partial(step.proposer.settled, step.proposal, outcome, out), out)

    def _accepted(self, step: _UnderWay) -> Accepted:
        subject = step.proposal.subject
        self._refusals.pop(subject, None)
        self._quarantine.release(f"the write of {subject.text}")
        return Accepted()

    def _refused(self, step: _UnderWay, out: Outbox) -> Refused:
        subject = step.proposal.subject
        is_waiting = self._counts_refusals and self._postpone(step, out)
        if is_waiting and self._refusals[subject] == AT_ONCE + 1:
            count = self._refusals[subject]
            text = f"ZooKeeper refused {count} consecutive transactions for {subject.text}; retrying less often"
            out.notice("refused transaction", text)
        return Refused(is_waiting, tuple(step.refused), step.may_be_written)

    def _postpone(self, step: _UnderWay, out: Outbox) -> bool:
        """Count a failure; after several in a row, delay the subject. Return whether it waits."""
        subject = step.proposal.subject
        count = self._refusals[subject] = self._refusals.get(subject, 0) + 1
        wait = wait_s(count)
        if wait is None:
            return False
        self._waiting.setdefault(subject, []).append(step)
        out.wake(TryAgain(subject), out.now + wait)
        return True

    def resume(self, alarm: TryAgain, out: Outbox) -> None:
        """End the wait: the proposers decide again about everything refused meanwhile."""
        for step in self._waiting.pop(alarm.subject, ()):
            what = f"writing {alarm.subject.text} again"
            self._quarantine.attempt(what, partial(step.proposer.retry, step.proposal, out), out)


def _next_of(step: _UnderWay) -> list[Piece]:
    """Take the pieces of the lowest rank, which may be sent now."""
    lowest = min((piece.rank for piece in step.later), default=0)
    pieces = [piece for piece in step.later if piece.rank == lowest]
    step.later = [piece for piece in step.later if piece.rank > lowest]
    return pieces


def _is_before(write: Write, fact: Fact) -> bool:
    """Whether a znode is as it was before the write."""
    return (
        fact.stat is None
        if isinstance(write, Create)
        else fact.stat is not None and fact.stat.version == write.expected and write.life in (None, fact.stat.czxid)
    )


def _is_written(write: Write, fact: Fact) -> bool:
    """Whether a znode that only controllers write has the written value: while no other controller leads, no one else
    writes the same there.
    """
    if isinstance(write, Delete) or not isinstance(write.address, PROOFS) or fact.stat is None:
        return False
    version = 0 if isinstance(write, Create) else write.expected + 1
    return fact.stat.version == version and fact.value == write.value


def _to_read(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """The addresses to read; only a survey of the topic can find its remnants."""
    known = (TopicAddress(a.topic) if isinstance(a, TopicRemnantAddress) else a for a in addresses)
    return tuple(dict.fromkeys(known))


def facts_of(commit: Commit, zxid: Zxid, czxid_of: Callable[[TopicName], Zxid | None]) -> Iterator[Fact]:
    """The facts that follow from an accepted transaction."""
    for write in commit.writes:
        if isinstance(write, Create) and write.is_sequential:
            continue  # ZooKeeper chose its name, which we do not know
        yield _fact(write, zxid, czxid_of)


def facts_below(commit: Commit, zxid: Zxid) -> Iterator[Fact]:
    """States known to be absent: a topic's znode that was just created has no children."""
    for write in commit.writes:
        if isinstance(write, Create) and isinstance(write.address, TopicAddress) and isinstance(write.value, Topic):
            yield from (absent(StateAddress(write.address.topic, n), zxid) for n in write.value.partitions)


def may_be_deleted_unseen(commit: Commit) -> Iterator[Address]:
    """Created znodes that others may delete before their folder is listed: without a watch, no listing would tell."""
    for write in commit.writes:
        is_named = isinstance(write, Create) and not write.is_sequential
        if is_named and write.address.path.rpartition("/")[0] in SHARED_FOLDERS:
            yield write.address


def _fact(write: Write, zxid: Zxid, czxid_of: Callable[[TopicName], Zxid | None]) -> Fact:
    address = write.address
    if isinstance(write, Delete):
        return absent(address, zxid)
    if isinstance(write, Create):
        return present(address, write.value, Stat(zxid, zxid, ZnodeVersion(0)))
    czxid = UNKNOWN if write.life is None else write.life
    if isinstance(address, TopicAddress):
        known = czxid_of(address.topic)
        czxid = zxid if known is None else known
    return present(address, write.value, Stat(czxid, zxid, ZnodeVersion(write.expected + 1)))

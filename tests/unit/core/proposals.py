"""Who proposes what, in the tests of transactions?"""

from __future__ import annotations

from controller.core.messages.effects import Commit, Create, Effect, Write
from controller.core.messages.outbox import Outbox
from controller.core.transactions.proposal import Atom, Outcome, Proposal, Refused, Subject
from controller.core.turn.duty import Duty
from tests.unit.core.builders import Term, commits
from zk_layout.facts import Fact, absent
from zk_layout.ids import PartitionId, TopicName, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import Config, TopicConfigAddress

ZERO = PartitionId(0)
A, B, C = (Subject("topic", name) for name in "abc")


class Proposer(Duty):
    """Remembers what became of what it proposed."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[Subject, Outcome]] = []
        self.retried: list[Proposal] = []

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        self.outcomes.append((proposal.subject, outcome))

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        self.retried.append(proposal)


class Desk(Term):
    """Transactions, and someone who proposes."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**settings)
        self.proposer = Proposer()

    def send(self, *proposals: Proposal) -> list[Effect]:
        out = self.out()
        self.transactions.send(self.proposer, proposals, out)
        return out.effects

    def outcomes(self) -> list[tuple[Subject, Outcome]]:
        """Since this was last called."""
        told, self.proposer.outcomes = self.proposer.outcomes, []
        return [(subject, Refused(o.is_waiting, (), False) if isinstance(o, Refused) else o) for subject, o in told]

    def refuse_once(self, proposal: Proposal) -> list[Effect]:
        (commit,) = commits(self.send(proposal))
        return self.refuse(commit, *(absent(write.address, Zxid(5)) for write in commit.writes))


def mark(name: str) -> Write:
    """Any write of one znode."""
    return Create(TopicDeletionAddress(TopicName(name)), None)


def proposal(subject: Subject, *names: str, holds: tuple[Subject, ...] = ()) -> Proposal:
    """Each of the znodes is an atom of its own."""
    return Proposal(subject, tuple(Atom((mark(name),), (f"{name} is wanted",)) for name in names), holds)


def config(name: str, size: int) -> Write:
    """A write of about so many bytes."""
    return Create(TopicConfigAddress(TopicName(name)), Config({"retention.ms": "1" * size}))


def gone(name: str, zxid: int = 5) -> Fact:
    return absent(TopicDeletionAddress(TopicName(name)), Zxid(zxid))


def written(commit: Commit) -> list[str]:
    return [write.address.path.rpartition("/")[2] for write in commit.writes]

"""What does a duty want written, and what are the possible outcomes?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.messages.effects import Write
from zk_layout.catalog import Address
from zk_layout.ids import TopicName

TOPIC = "topic"


class Subject(Struct, frozen=True):
    """What a proposal decides about. Each subject has at most one proposal under way.

    >>> Subject("topic", "orders").text
    'topic orders'
    """

    kind: str
    name: str = ""

    @property
    def text(self) -> str:
        """As shown to operators."""
        return f"{self.kind} {self.name}".rstrip()


def topic_subject(name: TopicName) -> Subject:
    """The subject of one topic's znodes."""
    return Subject(TOPIC, name)


class Atom(Struct, frozen=True):
    """Writes that belong together, in one transaction if it can hold them; `why` has one sentence for each decision.

    Shape:
        If one cannot, all of `before` is committed before any of `writes` is sent, and all of those before any of
        `after`. The writes within `before`, and those within `after`, are independent of each other. `writes` stay in
        one transaction if ZooKeeper's limit allows; if not, each part is committed before the next is sent, and those
        of the znodes `first` come first.
    """

    writes: tuple[Write, ...]
    why: tuple[str, ...]
    before: tuple[Write, ...] = ()
    after: tuple[Write, ...] = ()
    first: tuple[Address, ...] = ()


class Proposal(Struct, frozen=True, eq=False):
    """What a duty wants written about one subject.

    Shape:
        Atoms may travel in several transactions. `holds` are other subjects that must not be written meanwhile. The
        duty gets `memo` back with the outcome.
    """

    subject: Subject
    atoms: tuple[Atom, ...]
    holds: tuple[Subject, ...] = ()
    memo: object = None


class Accepted(Struct, frozen=True):
    """ZooKeeper took all of it, and the facts have been folded."""


class Refused(Struct, frozen=True):
    """ZooKeeper did not take all of it; the znodes concerned have been read again.

    Shape:
        With `is_waiting`, repeated refusals delay the next attempt; the duty is called when it is due. `about` are the
        znodes that ZooKeeper refused to write, or all of them if that is unknown. `may_be_written`: a part was
        committed, or the outcome of one is unknown; otherwise nothing of it was written.
    """

    is_waiting: bool
    about: tuple[Address, ...]
    may_be_written: bool


class Unwritable(Struct, frozen=True):
    """It cannot be written as it is, and was not sent. `message` says what and why.

    Repeating it changes nothing. After several in a row about one subject, the next waits as after refusals.
    """

    message: str


class TooLarge(Unwritable, frozen=True):
    """A znode would exceed ZooKeeper's limit; `message` says which, and what to do."""


Outcome = Accepted | Refused | Unwritable


def is_unwritten(outcome: Outcome) -> bool:
    """Whether certainly nothing of a proposal was written: what looks like it in ZooKeeper is from another process."""
    return isinstance(outcome, Unwritable) or (isinstance(outcome, Refused) and not outcome.may_be_written)

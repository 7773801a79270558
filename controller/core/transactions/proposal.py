"""What does a duty want written, and what can become of it?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.messages.effects import Write
from zk_layout.catalog import Address
from zk_layout.ids import TopicName

TOPIC = "topic"


class Subject(Struct, frozen=True):
    """What is being decided about. About one subject at most one proposal is under way.

    >>> Subject("topic", "orders").text
    'topic orders'
    """

    kind: str
    name: str = ""

    @property
    def text(self) -> str:
        """As people read it."""
        return f"{self.kind} {self.name}".rstrip()


def topic_subject(name: TopicName) -> Subject:
    """The znodes of one topic."""
    return Subject(TOPIC, name)


class Atom(Struct, frozen=True):
    """Writes that belong together, in one transaction wherever it can hold them; `why` has a sentence a decision.

    Shape:
        Where none can, all of `before` is committed before any of `writes` is sent, and all of that before any of
        `after`. The writes within `before`, and those within `after`, do not depend on each other. `writes` stay in one
        transaction if ZooKeeper takes it at all; if not, each part is committed before the next is sent.
    """

    writes: tuple[Write, ...]
    why: tuple[str, ...]
    before: tuple[Write, ...] = ()
    after: tuple[Write, ...] = ()


class Proposal(Struct, frozen=True, eq=False):
    """What a duty wants written about one subject.

    Shape:
        Atoms may travel in several transactions. `holds` are other subjects that must not be written meanwhile.
        `memo` is whatever the duty wants to find again when it is told what became of it.
    """

    subject: Subject
    atoms: tuple[Atom, ...]
    holds: tuple[Subject, ...] = ()
    memo: object = None


class Accepted(Struct, frozen=True):
    """ZooKeeper took all of it, and the facts say so."""


class Refused(Struct, frozen=True):
    """ZooKeeper did not take all of it; what it was about has been read again.

    Shape:
        With `is_waiting` it was refused so often that the next attempt waits; the duty is told when it is due. `about`
        are the znodes that ZooKeeper refused to write, or all that were written where nobody knows.
    """

    is_waiting: bool
    about: tuple[Address, ...] = ()


class Unwritable(Struct, frozen=True):
    """It cannot be written as it is; nothing was sent. `message` says what and why.

    Repeating it changes nothing. After several in a row about one subject, the next waits as after refusals.
    """

    message: str


class TooLarge(Unwritable, frozen=True):
    """A znode would be larger than ZooKeeper takes; `message` says which, and what to do."""


Outcome = Accepted | Refused | Unwritable

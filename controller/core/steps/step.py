"""What takes part in the next step of one topic: its requests, its rules, and what it comes to?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct, field

from controller.core.clients.open_requests import Item, Wanted, granted, refused
from controller.core.messages.effects import Notice, Record
from controller.core.messages.errors import ErrorCode
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Result
from controller.core.state.topics import TopicView
from controller.core.steps.change import Precedence, Rule
from controller.core.steps.draft import Draft
from controller.core.transactions.proposal import Atom, Outcome, Subject
from controller.core.turn.duty import Duty
from zk_layout.catalog import Address
from zk_layout.ids import PartitionId, TopicName


class Step(Struct, eq=False):
    """One step of a topic while it is being decided, and until it is written.

    Shape:
        `numbers` are the partitions that are due. `accepted` are parts of requests that are answered when the writes
        are done, `postponed` those that wait for the next step. Partitions that are `closed` get no other request in
        this step, and rules are not asked about those that are `decided`; for those in `requested` a request decided
        about the replicas. Those `elected` got a leader before any request was considered; about those `left_alone` a
        request decided, though they are due, and no rule at all was asked about those `unasked`. Those `limited` are
        set aside: nothing but elections is decided about them, and where the whole `is_limited` nothing but requests
        writes the topic's own znode. `notices` are given once the step is proposed. `looks` must be read before
        anything can be decided about the partitions `looking`. With `waits_for` nothing of this step is written before
        that subject is free. `at` is what is being decided at this moment: it is to blame for an error.
    """

    name: TopicName
    numbers: Mapping[PartitionId, None]
    draft: Draft | None = None
    accepted: list[Item] = field(default_factory=list)
    postponed: list[Item] = field(default_factory=list)
    closed: dict[PartitionId, None] = field(default_factory=dict)
    decided: dict[PartitionId, None] = field(default_factory=dict)
    requested: dict[PartitionId, None] = field(default_factory=dict)
    elected: dict[PartitionId, None] = field(default_factory=dict)
    left_alone: dict[PartitionId, None] = field(default_factory=dict)
    unasked: dict[PartitionId, None] = field(default_factory=dict)
    limited: frozenset[PartitionId] = frozenset()
    is_limited: bool = False
    looks: list[Address] = field(default_factory=list)
    looking: dict[PartitionId, None] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    atoms: tuple[Atom, ...] = ()
    holds: list[Subject] = field(default_factory=list)
    waits_for: Subject | None = None
    at: Item | PartitionId | None = None

    @property
    def taken(self) -> set[PartitionId]:
        """The partitions about which an accepted request decides."""
        return {item.at.partition for item in self.accepted}

    @property
    def planned(self) -> Draft:
        """The draft of a topic that exists."""
        assert self.draft is not None, self.name
        return self.draft

    @property
    def topic(self) -> TopicView:
        """The topic, where it exists."""
        return self.planned.topic

    def came_about(self) -> Iterable[tuple[Record, Sequence[str]]]:
        """What an audit trail has to tell of it once it is written; without a draft it creates or deletes a topic."""
        if self.draft is not None:
            return self.draft.came_about()
        return [(Record.TOPIC, atom.why[:1]) for atom in self.atoms]


class TopicDuty(Duty):
    """A duty that also decides about single topics; what all of them decide about one is one step.

    Shape:
        `parts` are the types of parts of requests that it decides, `rules` what it wants to be asked about each
        partition that is due.
    """

    parts: ClassVar[tuple[type[Wanted], ...]] = ()

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """What is to be asked about each partition that is due, and when."""
        return ()

    def owns(self, name: TopicName) -> bool:
        """Whether a topic is in a condition in which nobody else decides about it."""
        return False

    def decide(self, step: Step, items: list[Item], out: Outbox) -> None:
        """The step of a topic that it owns."""

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Decide a part of a request: settle it, or take it into the step."""

    def granted(self, item: Item) -> Result:
        """The answer to a part that was taken into a step whose writes are done."""
        return granted(item)

    def missing(self, item: Item) -> Result:
        """The answer to a part whose topic or partition does not exist."""
        return refused(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.")

    def being_deleted(self, item: Item) -> Result:
        """The answer to a part whose topic is being deleted: for clients it is gone."""
        return self.missing(item)

    def open_step(self, step: Step, out: Outbox) -> None:
        """Requests have been considered, rules have not been asked yet."""

    def close_step(self, step: Step, out: Outbox) -> None:
        """Rules have been asked; what else goes with the step?"""

    def end_step(self, step: Step, *, is_decided: bool) -> None:
        """All is decided about these partitions, for this turn, unless an error ended the step."""

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """What became of a step."""

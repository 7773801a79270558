"""What belongs to the next step of one topic: requests, rules, and the result?"""

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
    """One step of a topic, from preparation until it is written.

    Shape:
        `numbers` are the due partitions. `accepted` parts of requests are answered when the writes are done,
        `postponed` ones wait for the next step. `closed` partitions get no other request in this step, and rules skip
        `decided` ones; for those in `requested` a request decided about the replicas. Those `elected` got a leader
        before any request was considered; about those `left_alone` a request decided, though they are due, and no rule
        at all examined those `unasked`. The leaders of those `proposed` get the ISR that they requested. The `limited`
        are quarantined: only elections are allowed, and with `is_limited` only requests write the topic's own znode.
        `notices` are logged once the step is proposed. `looks` must be read before anything can be decided about the
        partitions `looking`. With `waits_for`, the step is not written before that subject is free. `at` is what is
        being decided at this moment: it is blamed for an exception.
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
    proposed: dict[PartitionId, None] = field(default_factory=dict)
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
    def unfinished(self) -> Iterable[PartitionId]:
        """The due partitions that may have a further step once this one is written; about the rest no rule had a
        decision, and what changes that makes them due again.
        """
        if self.draft is None:
            return self.numbers
        is_touched = self.draft.touches
        return [n for n in self.numbers if is_touched(n) or n in self.left_alone or n in self.looking]

    @property
    def topic(self) -> TopicView:
        """The topic, if it exists."""
        return self.planned.topic

    def records(self) -> Iterable[tuple[Record, Sequence[str]]]:
        """The audit records of a written step; without a draft a topic is created, or being deleted."""
        if self.draft is not None:
            return self.draft.records()
        return [(Record.TOPIC, atom.why[:1]) for atom in self.atoms]


class TopicDuty(Duty):
    """A duty that also decides about single topics; the decisions of all such duties about one topic form one step.

    Shape:
        `parts` are the types of request parts that it decides, `rules` what it decides about each due partition.
    """

    parts: ClassVar[tuple[type[Wanted], ...]] = ()

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """The rules for each due partition, with their order."""
        return ()

    def owns(self, name: TopicName) -> bool:
        """Whether this duty alone decides about a topic, because of the topic's condition."""
        return False

    def decide(self, step: Step, items: list[Item], out: Outbox) -> None:
        """Prepare the step of a topic that it owns."""

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Decide a part of a request: settle it, or add it to the step."""

    def granted(self, item: Item) -> Result:
        """The answer to a part whose writes are done."""
        return granted(item)

    def missing(self, item: Item) -> Result:
        """The answer to a part whose topic or partition does not exist."""
        return refused(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.")

    def being_deleted(self, item: Item) -> Result:
        """The answer to a part whose topic is being deleted: for clients it is gone."""
        return self.missing(item)

    def open_step(self, step: Step, out: Outbox) -> None:
        """Act after requests and before rules."""

    def close_step(self, step: Step, out: Outbox) -> None:
        """Act after rules: what else belongs to the step?"""

    def end_step(self, step: Step, *, is_decided: bool) -> None:
        """Act once these partitions are decided for this turn, unless an exception ended the step."""

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """Take the outcome of a step."""

"""Does a leader obey a pause of moves, and know of it in time?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from controller.core.messages.effects import Commit
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import Partition
from tests.simulation.broken import hold
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.admin import PreferredElection, PreferredElectionAddress
from zk_layout.znodes.pause import Pause, PauseAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

PAUSED = PauseAddress.path
PAUSES_A_FAULT = 0.06
CONTENTS = (catalog.encode(Pause("an operator", 1_700_000_000_000, "disks are replaced")), b"", b"by hand", b"null")
# What was decided before a term knew may be sent in parts; the later ones wait for the answers to the earlier.
DECIDED_BEFORE_S = 10.0
# A controller's server may lag by 20 s, and a process may be paused or cut off for 15 s.
KNOWN_WITHIN_S = 45.0
# A client's wish for preferred leaders waits for its topic, which may be in quarantine.
WISHED_WITHIN_S = 60.0
_BALANCED = re.compile(r"is the preferred leader of (\S+)-(\d+): it takes over")


class _Term(Struct):
    """What one term knows: since when it is paused, and whether it has ever decided anything without a pause."""

    epoch: ControllerEpoch
    paused_at: float | None = None
    was_free: bool = False


class Pauses:
    """An operator who pauses moves for a while, and what the terms then decide."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/pauses")
        self.count = 0
        self._since: float | None = None
        self._terms: dict[BrokerId, _Term] = {}
        self._awaited: Collection[TopicPartition] = ()
        self._wished: dict[TopicPartition, float] = {}

    # the operator

    def maybe_strike(self) -> None:
        """Pause now and then. The znode may hold anything: it counts.

        Not where faults are aimed: provoked phases are those of moves, which would not begin.
        """
        if self.world.aimed.is_in_use:
            return
        if self.random.random() < PAUSES_A_FAULT and PAUSED not in self.world.zookeeper.nodes:
            self.count += 1
            self.world.say("client", "pauses moves")
            self.world.write(MakeNode(PAUSED, self.random.choice(CONTENTS)))
            self.world.clock.after(self.random.uniform(0.2, 40.0), self.resume)

    def resume(self) -> None:
        """Let moves go on."""
        if PAUSED in self.world.zookeeper.nodes:
            self.world.say("client", "lets moves go on")
            self.world.write(RemoveNode(PAUSED))

    # what happens

    def wrote(self, operation: Operation) -> None:
        """Note when a pause begins and ends, and which preferred leaders clients want."""
        node = self.world.zookeeper.nodes.get(operation.path)
        if operation.path == PAUSED:
            self._since = None if node is None else self.world.clock.now
        elif operation.path == PreferredElectionAddress.path:
            # A wish counts for as long as no controller has noted it, and for a while after.
            self._wished.update(dict.fromkeys(self._awaited, self.world.clock.now))
            value = catalog.decode(PreferredElectionAddress(), node.data) if node is not None else None
            self._awaited = value.partitions if isinstance(value, PreferredElection) else ()

    def decided(self, controller: Controller, commits: list[Commit], state: ClusterState) -> None:
        """A turn of a term is over: the term knows what `state` holds."""
        term = self._terms.get(controller.own_id)
        if term is None or term.epoch != controller.epoch:
            term = self._terms[controller.own_id] = _Term(controller.epoch)
        now = self.world.clock.now
        if not state.is_paused:
            term.paused_at, term.was_free = None, term.was_free or bool(commits)
            is_late = self._since is not None and now - self._since > KNOWN_WITHIN_S
            hold(f"{controller.name} decides, and does not know of a pause" if is_late and commits else None)
            return
        term.paused_at = now if term.paused_at is None else term.paused_at
        if term.was_free and now - term.paused_at < DECIDED_BEFORE_S:
            return
        for commit in commits:
            for wrong in (*self._moves(commit, state), *self._balances(commit)):
                hold(f"{controller.name} {wrong}, though moves are paused")

    def _moves(self, commit: Commit, state: ClusterState) -> Iterator[str]:
        for write in commit.writes:
            value = getattr(write, "value", None)
            if not isinstance(write.address, TopicAddress) or not isinstance(value, Topic):
                continue
            held = state.topics.views.get(write.address.topic)
            for number, to in value.partitions.items() if held is not None else ():
                before = held.partitions.get(number) if held is not None else None
                if before is not None and begins(before, to, {*self.world.controllers}):
                    yield f"begins to move {TopicPartition(write.address.topic, number)} to {list(to.target)}"

    def _balances(self, commit: Commit) -> Iterator[str]:
        for why in commit.why:
            for name, number in _BALANCED.findall(why):
                at = TopicPartition(TopicName(name), PartitionId(int(number)))
                is_old = self.world.clock.now - self._wished.get(at, -WISHED_WITHIN_S) >= WISHED_WITHIN_S
                if is_old and at not in self._awaited:
                    yield f"moves the leader of {at} for balance"


def begins(before: Partition, to: Assignment, controllers: set[BrokerId]) -> bool:
    """Whether a write begins a move, or redirects one. The end of a move is no beginning, nor is a cancellation, which
    may keep replicas that have joined, nor that unlisted in-sync replicas are listed.

    Only controllers had ever been in sync: nothing was written, and there is nothing to move.
    """
    held, state = before.assignment, before.state
    if to.target == held.target or not held.replicas:
        return False
    if state is None or controllers.issuperset(state.isr):
        return controllers.isdisjoint(held.replicas)
    is_cancelled = held.is_moving and not to.is_moving
    return not (is_cancelled and {*held.original} <= {*to.replicas} <= {*held.replicas})

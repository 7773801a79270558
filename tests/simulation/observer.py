"""What does a world learn of what a controller decides?"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import TYPE_CHECKING

from controller.core.machine import Machine
from controller.core.messages.effects import Commit, Effect, Measured, Notice, StepDown
from controller.core.messages.events import Committed, Conflicted, Event, Fenced, Unknown
from controller.runtime.pump import Took
from tests.simulation.trace import write_text
from zk_layout.ids import ControllerEpoch

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller


class Observer:
    """Replaces `controller.monitoring.monitoring`: reports a process' events to the world."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._world = controller.world

    def start(self) -> None:
        """No gauge is taken."""

    def stop(self) -> None:
        """Nothing was started."""

    def noticed(self, notice: Notice) -> None:
        """A notice was given."""
        self._world.folder.noticed(notice.text)
        self._world.sizes.noticed(notice)

    def measured(self, figure: Measured) -> None:
        """Not measured here."""

    def take_gauges(self) -> None:
        """Not measured here."""

    def term_began(self, epoch: ControllerEpoch, machine: Machine) -> None:
        """A term begins."""
        self._controller.term_began(epoch, machine)

    def term_ended(self) -> None:
        """A term is over."""
        self._controller.term_ended()

    def turned(self, _now: float, events: Sequence[Event], effects: Sequence[Effect], _took: Took, _left: int) -> None:
        """A turn was decided, but not carried out yet."""
        self._controller.turned()
        for event in events:
            self._tell_outcome(event)
        self._world.limits.disks.heard(self._controller, events)
        for effect in effects:
            if isinstance(effect, Commit):
                self._controller.submitted.append(effect)
                for why in effect.why:
                    self._world.say(self._controller.name, f"commit {effect.commit}: {why}")
                for made in effect.operations:
                    self._world.say(self._controller.name, f"  {write_text(made.write, made.data)}")
                self._world.namesakes.decided(self._controller, effect)
                self._world.checker.decided(effect)
            elif isinstance(effect, StepDown):
                self._world.checker.effect(self._controller, effect)
        commits = [effect for effect in effects if isinstance(effect, Commit)]
        if self._controller.state is not None:
            self._world.pauses.decided(self._controller, commits, self._controller.state)
            self._world.limits.gates.decided(self._controller, commits, self._controller.state)
            self._world.limits.paces.decided(self._controller, commits, self._controller.state)
            self._world.limits.disks.decided(self._controller, commits, self._controller.state)
        self._world.limits.size_questions.decided(self._controller, effects)
        self._world.limits.disks.asked(self._controller, effects)
        if self._controller.crash_in_turn:
            self._controller.crash_soon()
            assert isinstance(effects, MutableSequence)
            del effects[self._world.random.randint(0, len(effects)) :]

    def _tell_outcome(self, event: Event) -> None:
        doubts, epoch = self._world.checker.announcements.doubts, self._controller.epoch
        match event:
            case Unknown(commit):
                doubts.lost(epoch, commit)
                outcome = "outcome unknown"
            case Committed(commit, zxid):
                doubts.answered(epoch, commit)
                outcome = f"committed at zxid {zxid}"
            case Fenced(commit):
                outcome = "fenced"
            case Conflicted(commit, _, reason):
                # The next transaction about the same znodes would be taken for it.
                submitted = self._controller.submitted
                self._controller.submitted = [other for other in submitted if other.commit != commit]
                outcome = reason
            case _:
                return
        self._world.say(self._controller.name, f"commit {commit}: {outcome}")

"""How is a fault struck, and how is it healed?"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from controller.lab.errors import LabError
from tests.chaos.bad_clients import idle_clients, silent_clients, slow_scrapers, wide_requests
from tests.chaos.clock import STEP_S
from tests.chaos.faults import NETWORK, Kind
from tests.chaos.members import Controller, EnsembleServer, Member
from tests.chaos.proxy import Mode
from tests.chaos.schedule import Blow, Strike, healing_order
from tests.chaos.stage import Stage

_MODES = {Kind.CUT: Mode.CUT, Kind.SLOW: Mode.SLOW, Kind.HALF_OPEN: Mode.HALF_OPEN}
_LITTLE_MEMORY_BYTES = 64 * 1024 * 1024
_ENDS_WITHIN_S = 40.0
_SIGNALS = 100
_ENDING = frozenset({Kind.KILL, Kind.TERMINATE, Kind.ROLL})


class Impossible(LabError):
    """This machine, or this contender, cannot have this fault; the text says why."""


class Hit:
    """One fault and the processes that it strikes."""

    def __init__(self, stage: Stage, blow: Blow) -> None:
        """Resolve roles to processes, without striking yet.

        Raises:
            Impossible: the fault is impossible here.
        """
        self._stage = stage
        self.fault = blow.fault
        self.victims = stage.members_of(blow.fault.role, blow.victim)
        self._ahead_s = STEP_S if blow.victim % 2 else -STEP_S
        self._clients = ExitStack()
        if self.fault.is_of_the_daemon and not isinstance(self.victims[0], Controller):
            raise Impossible("only a replica of ours has this")
        if self.fault.kind is Kind.CLOCK and self.victims[0].clock is None:
            raise Impossible("the clock of a process cannot be set: there is no C compiler")

    def strike(self) -> None:
        """Do it."""
        if self.fault.kind in NETWORK:
            self._become(_MODES[self.fault.kind])
            return
        actions: dict[Kind, Callable[[Member], object]] = {
            Kind.KILL: lambda m: m.kill(),
            Kind.PAUSE: lambda m: m.pause(),
            Kind.TERMINATE: lambda m: m.process.signal(signal.SIGTERM),
            Kind.FULL_DISK: lambda m: m.limit(resource.RLIMIT_FSIZE, 0),
            Kind.CLOCK: self._set_clock,
            Kind.ROLL: _roll,
        }
        action = actions.get(self.fault.kind, self._starve)
        for member in self.victims:
            action(member)

    def heal(self) -> None:
        """Undo it, and start what does not run.

        Raises:
            ServerFailed: something that was struck does not come back.
        """
        self._clients.close()
        self._become(Mode.OPEN)
        for member in self.victims:
            if self.fault.kind is Kind.FULL_DISK and isinstance(member, EnsembleServer):
                # It would go on writing behind half a record, and could not read that after its next start.
                member.kill()
            member.resume()
            member.unlimit()
            if member.clock is not None:
                member.clock.set_ahead(0)
            if isinstance(member, Controller):
                member.unblock_log()
            if self.fault.kind is Kind.TERMINATE:
                member.process.stop(_ENDS_WITHIN_S)

    def _become(self, mode: Mode) -> None:
        sides = self.fault.sides
        self._stage.become([link for m in self.victims for side in sides for link in m.links.get(side, ())], mode)

    def _set_clock(self, member: Member) -> None:
        assert member.clock is not None
        member.clock.set_ahead(self._ahead_s)

    def _starve(self, member: Member) -> None:
        assert isinstance(member, Controller)
        match self.fault.kind:
            case Kind.BLOCKED_LOG:
                member.block_log()
                _fill_the_pipe(member)
            case Kind.IDLE_CLIENTS:
                self._clients.enter_context(idle_clients(member.address))
            case Kind.LITTLE_MEMORY:
                member.limit(resource.RLIMIT_AS, member.virtual_bytes() + _LITTLE_MEMORY_BYTES)
                self._clients.enter_context(wide_requests(member.address))
            case Kind.SLOW_SCRAPERS:
                self._clients.enter_context(slow_scrapers(member.http_port))
            case Kind.SILENT_CLIENTS:
                self._clients.enter_context(silent_clients(member.address))


class Hits:
    """One strike: all its faults at the same time."""

    def __init__(self, stage: Stage, strike: Strike) -> None:
        """Resolve all victims before the first strike.

        Raises:
            Impossible: one of the faults is impossible here.
        """
        self._stage = stage
        self._hits: Sequence[Hit] = [Hit(stage, blow) for blow in healing_order(strike)]

    @property
    def victims(self) -> tuple[str, ...]:
        """The victims."""
        return tuple(f"{hit.fault.kind} {member.name}" for hit in self._hits for member in hit.victims)

    def strike(self) -> None:
        """Strike with all at once; slow ones, such as rolling restarts, come last."""
        for hit in sorted(self._hits, key=lambda hit: hit.fault.kind is Kind.ROLL):
            hit.strike()

    def heal(self) -> tuple[str, ...]:
        """Undo every fault first; then start ended processes again, in the order of dependency.

        Shape:
            Returns the processes that no fault had ended, with their exit codes.

        Raises:
            ServerFailed: something does not come back.
        """
        were_ended = {member.name for hit in self._hits if hit.fault.kind in _ENDING for member in hit.victims}
        by_themselves = tuple(
            m.how_it_ended for m in self._stage.members if not m.process.is_alive and m.name not in were_ended
        )
        for hit in self._hits:
            hit.heal()
        for group in (self._stage.ensemble, self._stage.controllers, self._stage.brokers):
            ended = [member for member in group if not member.process.is_alive]
            for member in ended:
                member.spawn()
            for member in ended:
                member.start_again()
        return by_themselves


def _fill_the_pipe(member: Controller) -> None:
    """Let it log more than the pipe holds."""
    for _ in range(_SIGNALS):
        member.process.signal(signal.SIGUSR2)
        time.sleep(0.02)


def _roll(member: Member) -> None:
    member.process.stop(_ENDS_WITHIN_S)
    member.start_again()

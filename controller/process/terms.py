"""How does a term begin, serve, drain and end, once its claim was accepted?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from controller import logs
from controller.connections.broker import Dialer
from controller.core.candidacy.events import Claimed, NotGivenUp, TermEvent
from controller.core.messages.commands import LiveBroker
from controller.core.messages.effects import Decided, Notice
from controller.core.settings import MachineSettings
from controller.following.cluster import ClusterFollower
from controller.following.facts import Facts
from controller.following.standby import Standby
from controller.monitoring.monitoring import Monitoring
from controller.process.claimant import Claimant
from controller.process.machine_settings import machine_settings, watched_in_term
from controller.process.term import Quotas, Term, TermParts
from controller.runtime.journal import Journal
from controller.runtime.reclaiming import collect, dismantle
from controller.server.listener import Server
from controller.settings.term import TermSettings

_log = structlog.get_logger(__name__)


class Followed(Struct):
    """What this process follows whether or not it leads; terms get of it what they need."""

    cluster: ClusterFollower
    quotas: Quotas | None = None
    standby: Standby | None = None


class Terms:
    """Holds at most one term at a time, and what terms share."""

    def __init__(
        self,
        settings: TermSettings,
        claimant: Claimant,
        monitoring: Monitoring,
        tell: Callable[[TermEvent | NotGivenUp], None],
        followed: Followed,
        dialer: Dialer | None = None,
    ) -> None:
        """`tell` receives what happens to each term; `dialer` connects to brokers."""
        self._dialer = dialer
        self._followed = followed
        self.decided: Callable[[Decided], None] = lambda _: None
        """Receives decisions about the rights of requests."""
        self._settings = settings
        self._claimant = claimant
        self._monitoring = monitoring
        self._tell = tell
        directory = settings.journal_directory
        self._journal = Journal(directory, self._journal_stopped) if directory else None
        self._claimed: Claimed | None = None
        self._term: Term | None = None
        self._ending: Term | None = None

    def won(self, claimed: Claimed) -> None:
        """Record a won claim: `/controller` is ours until `end`."""
        self._claimed = claimed
        logs.term(claimed.epoch)

    def begin(self, server: Server) -> None:
        """Build all parts of the term and load its state."""
        assert self._claimed is not None
        self._term = Term(self._parts(server), self._claimed, self._tell)
        self._monitoring.term_began(self._claimed.epoch, self._term.machine)
        self._term.begin()

    def serve(self, server: Server) -> None:
        """Start serving clients."""
        if self._term is not None:
            self._monitoring.take_gauges()
            server.begin_term(self._term.emit)

    def adjust(self, settings: TermSettings) -> None:
        """Follow settings that have changed: the term that goes on, and every later one."""
        self._settings = settings
        if self._term is not None:
            self._term.adjust(self._machine_settings(), settings.response_timeout_s, settings.drain_timeout_s)

    def drain(self) -> None:
        """Take no new decisions; `TermDrained` follows."""
        if self._term is not None:
            self._term.resign()

    async def end(
        self, server: Server, *, is_graceful: bool, keeps_claim: bool = False, names_successor: bool = False
    ) -> None:
        """End the term, if one has begun, and give up the claim. If graceful, first deliver the brokers' remaining
        commands.

        With `names_successor`, a standby is first asked to take over. With `keeps_claim`, `/controller` stays ours, so
        that this process can claim another term over it.
        """
        term, self._term = self._term, None
        server.refuse_all()
        if term is not None:
            self._ending = term
            await term.end(is_graceful=is_graceful)
            self._ending = None
            self._monitoring.term_ended()
        if not is_graceful:
            self._claimant.doubt()
        if self._claimed is not None and not keeps_claim:
            if names_successor:
                await self._claimant.hand_over(self._claimed)
            if await self._claimant.give_up(self._claimed):
                self._claimed = None
            else:
                self._tell(NotGivenUp())
        logs.term(None)
        if term is not None:
            await dismantle(term.machine)  # only once others can take over
            term = None
            collect()

    def cut_short(self) -> None:
        """Cut the shutdown of ended terms short."""
        for term in (self._term, self._ending):
            if term is not None:
                term.links.cut_short()
        self._claimant.cut_short()

    def live_brokers(self) -> Sequence[LiveBroker] | None:
        """The brokers this term knows to be live; None without a loaded term."""
        return self._term.live_brokers() if self._term is not None else None

    def is_paused(self) -> bool | None:
        """Whether this term begins no move; None without a term."""
        term = self._term
        return None if term is None else term.machine.is_paused

    def close(self) -> None:
        """Flush buffers."""
        if self._journal is not None:
            self._journal.close()

    def _journal_stopped(self, reason: str) -> None:
        notice = Notice("stopped journal", reason)
        self._monitoring.noticed(notice)
        _log.warning(notice.text, kind=notice.kind)

    def _facts(self, settings: MachineSettings, request_limit_bytes: int) -> Facts:
        what = watched_in_term(settings)
        standby = self._followed.standby
        warm = None if standby is None else standby.take(what)
        return self._followed.cluster.for_term(what, request_limit_bytes // 2) if warm is None else warm

    def _machine_settings(self) -> MachineSettings:
        claimant = self._claimant
        return machine_settings(self._settings, claimant.protocol, claimant.cluster_id, claimant.inherited)

    def _parts(self, server: Server) -> TermParts:
        settings, protocol, monitoring = self._settings, self._claimant.protocol, self._monitoring
        of_machine = self._machine_settings()
        return TermParts(
            bridge=self._claimant.bridge,
            facts=self._facts(of_machine, settings.machine.znode_size_limit),
            machine_settings=of_machine,
            protocol=protocol,
            inter_broker_listener=settings.inter_broker_listener,
            request_timeout_s=settings.response_timeout_s,
            request_limit_bytes=settings.machine.znode_size_limit,
            drain_timeout_s=settings.drain_timeout_s,
            answer=server.answer,
            counter=monitoring,
            link_observer=monitoring.links,
            turn_observers=(monitoring.turns, server),
            journal=self._journal,
            dialer=self._dialer,
            quotas=self._followed.quotas,
            control_plane_listener=settings.control_plane_listener,
            decided=self.decided,
        )

"""How does this process reach ZooKeeper, claim `/controller` there, and give it up?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog
from msgspec.structs import replace

from controller.core.candidacy import events
from controller.core.candidacy.migrating import MigrationPhase
from controller.core.candidacy.successor import WAIT_S
from controller.core.clients.authorization import NOT_KNOWN_YET, Withheld
from controller.preflight.brokers_protocol import BrokersProtocol, BrokersSettings
from controller.preflight.findings import Finding, Gravity, Verdict, once_passed, once_sound
from controller.preflight.inheriting import Inherited, difference
from controller.preflight.looking import sentences
from controller.runtime.supervision import Troubles, reason_of
from controller.settings.claiming import ClaimSettings
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.versions import InterBrokerProtocol, parse_wanted
from controller.zk import handing_over, inspection
from controller.zk.answering import Answering
from controller.zk.answers import Disconnected, Refused, SessionEnded, TurnedAway
from controller.zk.bridge import Bridge
from controller.zk.session import Session

HASTE_S = 1.0
TURNED_AWAY_S = 5.0
FIRST_LOOK_AGAIN_S, LONGEST_LOOK_AGAIN_S = 0.5, 5.0
UNTIL_BROKERS_SPEAK_S = 2.0
PART = "looking at the cluster"
LOOK_FOR_CHANGES_EVERY_S, LOOK_AT_ALL_EVERY_S = 5.0, 60.0

_log = structlog.get_logger(__name__)

Clash = Callable[[], Awaitable[events.IdClash | None]]


class Preflight(Protocol):
    """Checks whether this process may lead the cluster: `controller.preflight.looking.Preflight`."""

    async def look(self, bridge: Bridge, clash: Clash) -> Verdict:
        """Run all checks once. Writes nothing."""


class Claimant:
    """The process's part in the election in ZooKeeper. It takes no decisions; the candidacy does."""

    def __init__(
        self,
        settings: ClaimSettings,
        preflight: Preflight,
        tell: Callable[[events.Event], None],
        *,
        new_bridge: Callable[[ZooKeeperSettings], Bridge] = Bridge,
        troubles: Troubles | None = None,
        never_claims: bool = False,
    ) -> None:
        """`tell` is called on the event loop with every event the candidacy must know. Connects to nothing yet."""
        self._settings = settings
        self._never_claims = never_claims
        self._new_bridge = new_bridge
        self._tell = tell
        self._own_id = settings.own_id
        self._registration = settings.registration
        self._give_up_s = settings.request_timeout_s
        self._hand_over_s = WAIT_S
        self._may_be_named = False
        self._handing_over: asyncio.Timeout | None = None
        self._preflight = preflight
        self._set_protocol = parse_wanted(settings.protocol)
        self._brokers_protocol = BrokersProtocol()
        self._brokers_settings = BrokersSettings(settings.given)
        self._warned: tuple[Finding, ...] = ()
        self._withheld: Withheld | None = NOT_KNOWN_YET
        self._is_unsound = False
        self._has_passed = False
        self._found: dict[str, str] = {}
        self._changes: list[str] = []
        self._troubles = troubles or Troubles()
        self._troubles.expect(PART)
        self.cluster_id: str | None = None
        self.migration = MigrationPhase.NONE
        """The phase of a migration to KRaft, as of the last look."""
        self._is_sure = False
        self._patience: asyncio.Timeout | None = None
        self._answering: Answering | None = None
        self.bridge, self._session = self._new_session()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that do not forbid a claim but need an operator's attention."""
        return tuple(map(str, self._warned))

    @property
    def withheld(self) -> Withheld | None:
        """Why clients must not be served, given the authorizers brokers report; None if they may be."""
        return self._withheld

    @property
    def protocol(self) -> InterBrokerProtocol:
        """The protocol version for the next term: the operator's setting, otherwise what the brokers report."""
        return self._set_protocol or self._brokers_protocol.value

    @property
    def inherited(self) -> Inherited:
        """The settings the next term takes from the brokers."""
        return self._brokers_settings.value

    @property
    def may_write(self) -> bool:
        """Whether this process may write to ZooKeeper: never before the pre-flight checks have passed, and not at all
        if it never claims."""
        return self._has_passed and not self._never_claims

    def adjust(self, settings: ClaimSettings) -> None:
        """Follow what may change while this process runs: the time to give up a claim, and which settings are given."""
        self._settings = settings
        self._give_up_s = settings.request_timeout_s
        self._brokers_settings.adjust(settings.given)

    async def reach(self) -> None:
        """Connect to ZooKeeper and watch `/controller`, then run the pre-flight checks until they pass. Retries both
        without a limit and reports each outcome through `tell`."""
        servers = self._settings.zookeeper.connect
        _log.info("connecting to ZooKeeper", zookeeper=servers)
        while True:
            try:
                await self.bridge.start(self._not_reached)
                self._session.start()
                clash = await self._session.clash(self._registration)
            except Disconnected as error:
                self._session.stop()
                self.bridge, self._session = self._new_session()
                self._not_reached(str(error))
                if isinstance(error, TurnedAway):
                    await asyncio.sleep(TURNED_AWAY_S)  # an operator has to change something first
            except (Refused, SessionEnded) as error:
                self._tell(events.StartRefused(str(error)))
                return
            except Exception as error:  # nothing was claimed yet; another session may be luckier
                _log.exception("ZooKeeper was not reached because of an unexpected error; trying again")
                self._session.stop()
                await self.bridge.stop()
                self.bridge, self._session = self._new_session()
                self._tell(events.Unreachable(reason_of(error)))
                await asyncio.sleep(TURNED_AWAY_S)
            else:
                if clash is not None and not clash.is_our_past:
                    self._tell(clash)
                    if not self._never_claims:
                        return
                await self._look_until_brokers_have_answered()
                await self._keep_looking()
                return

    def _not_reached(self, reason: str) -> None:
        _log.warning("cannot reach ZooKeeper; trying again", reason=reason)
        self._tell(events.Unreachable(reason))

    async def _look_until_brokers_have_answered(self) -> None:
        """A cluster that passed once stays accepted, however many brokers die: that is when it most needs a controller.

        While no broker runs, none has confirmed that this process can lead; after a claim it therefore looks again.
        """
        wait_s = FIRST_LOOK_AGAIN_S
        while True:
            verdict = await self._look()
            if verdict is None or verdict.stops:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_LOOK_AGAIN_S)
                continue
            if verdict.has_any_answered:
                return
            wait_s = FIRST_LOOK_AGAIN_S
            await asyncio.sleep(UNTIL_BROKERS_SPEAK_S)

    async def _keep_looking(self) -> None:
        """Follow the brokers' protocol, settings and authorizers, and clear warnings that no longer apply. A leader
        steps down only if every broker uses an authorizer that this process lacks.

        Brokers change these only by a restart or through `/config/brokers`, and ZooKeeper shows both. A broker that
        does not answer is asked again later.
        """
        due_at, wait_s, as_of = 0.0, LOOK_FOR_CHANGES_EVERY_S, None
        while True:
            await asyncio.sleep(LOOK_FOR_CHANGES_EVERY_S)
            now = asyncio.get_running_loop().time()
            try:
                await self._tell_change()
                latest = await inspection.brokers_as_of(self.bridge)
                if latest == as_of and now < due_at:
                    continue
                verdict = await self._preflight.look(self.bridge, lambda: self._session.clash(self._registration))
                self._hear(verdict)
                await self._tell_change()
            except SessionEnded:
                continue
            except Exception as error:
                self._failed(error)
                continue
            is_news = latest != as_of
            wait_s = LOOK_FOR_CHANGES_EVERY_S if is_news else min(2 * wait_s, LOOK_AT_ALL_EVERY_S)
            due_at, as_of = now + (LOOK_AT_ALL_EVERY_S if verdict.have_all_answered else wait_s), latest
            self._judge_again(once_sound(verdict.findings))

    def _judge_again(self, findings: tuple[Finding, ...]) -> None:
        """Act on the findings of a process that has already passed and may be leading."""
        self._warn(findings)
        stops = [finding for finding in findings if finding.gravity is Gravity.STOP]
        if stops:
            self._tell(events.Unsound(sentences(stops)))
        elif self._is_unsound:
            self._tell(events.Watching())
        self._is_unsound = bool(stops)

    def _hear(self, verdict: Verdict) -> None:
        """Take over what brokers report about protocol, settings and authorizers, once a look is complete."""
        self._withhold(verdict.withheld)
        self._note_migration(verdict.migration)
        before = self.protocol
        self._troubles.right(PART)
        now = asyncio.get_running_loop().time()
        has_changed = self._brokers_protocol.update(verdict.protocols, now)
        if self._set_protocol is None and has_changed:
            _log.info("inter.broker.protocol.version determined", before=str(before), now=str(self.protocol))
            self._changes.append(f"inter.broker.protocol.version is {self.protocol} now, and was {before}")
        known = self.inherited
        if self._brokers_settings.update(verdict.settings, now, has_any_answered=verdict.has_any_answered):
            if taken := self.inherited.shown():
                _log.info("settings taken from the brokers", **taken)
            if self._has_passed:
                self._changes.append(f"settings of the brokers: {difference(known, self.inherited)}")

    def _note_migration(self, phase: MigrationPhase) -> None:
        if phase is not self.migration:
            _log.warning("the migration to KRaft has another phase", before=self.migration.value, now=phase.value)
        self.migration = phase

    def _withhold(self, withheld: Withheld | None) -> None:
        """Keep the last known state while no broker answers."""
        if withheld == self._withheld or withheld == NOT_KNOWN_YET:
            return
        if withheld is not None:
            _log.error("refusing clients' requests; brokers are still served", reason=withheld.reason)
        elif self._withheld is not None and self._withheld.is_known:
            _log.info("serving clients' requests again")
        self._withheld = withheld

    async def _tell_change(self) -> None:
        """Report a change that takes a new term. If that term could not load, the present one continues."""
        if self._changes and await self._session.blocker() is None:
            changes, self._changes = self._changes, []
            self._tell(events.ProtocolChanged("; ".join(changes)))

    async def _look(self) -> Verdict | None:
        """Run the checks once and report what follows. None if ZooKeeper or a bug prevented it."""
        try:
            verdict = await self._preflight.look(self.bridge, lambda: self._session.clash(self._registration))
            if self._has_passed:
                verdict = replace(verdict, findings=once_passed(verdict.findings))
            if not verdict.stops and not self._never_claims:
                await self._session.prepare()
                self._is_sure = await self._session.blocker() is None
            self._hear(verdict)
            await self._tell_change()
        except SessionEnded:
            return None  # the next session's look will show it
        except Exception as error:
            self._failed(error)
            return None
        self._warn(verdict.findings)
        if verdict.stops:
            self._tell(events.Unsound(sentences(verdict.stops)))
        else:
            self._pass(verdict)
            self._tell(events.Watching())
        return verdict

    def _failed(self, error: Exception) -> None:
        """The check itself failed: no reason to claim, and none to end a running term."""
        is_refused = isinstance(error, Refused)
        reason = f"ZooKeeper: {error}" if is_refused else reason_of(error)
        self._troubles.wrong(PART, "looking at the cluster failed", reason, None if is_refused else error)
        if not self._has_passed:
            self._tell(events.Unsound(reason))

    def _warn(self, findings: tuple[Finding, ...]) -> None:
        """Log findings that are new and do not forbid a claim."""
        warnings = tuple(finding for finding in findings if finding.gravity is Gravity.WARNING)
        for warning in warnings:
            if warning not in self._warned:
                _log.warning(f"pre-flight: {warning.text}", check=warning.check.value, hint=warning.hint)
        self._warned = warnings

    def _pass(self, verdict: Verdict) -> None:
        """Log that the pre-flight checks passed, the first time and whenever their findings change."""
        if not self._has_passed:
            self._has_passed = True
            what = "this replica could lead this cluster" if self._never_claims else "standing by"
            _log.info(what, broker=self._own_id, zookeeper=self._settings.zookeeper.connect)
        found = {f.check.value: f.text for f in verdict.findings if f.gravity is Gravity.OK}
        if found != self._found:
            self._found = found
            _log.info("pre-flight passed", **found)

    async def claim(
        self,
        *,
        replace: bool,
        raise_by: int = 1,
        replaces_ours: bool = False,
        surpass: int = -1,
        unanswered: events.Unanswered | None = None,
    ) -> events.ClaimOutcome:
        """Try to become the controller, and return the outcome. With `unanswered`, only instead of that leader.

        Checks first for whatever would end the term at once: a claim that is won and given up again raises the epoch.
        """
        if self._never_claims:
            return events.Lost("this process never claims /controller", needs_mending=True)
        try:
            if not self._is_sure:
                if reason := await self._session.blocker():
                    return events.Lost(reason, needs_mending=True)
                with contextlib.suppress(Refused):  # the term reports what it cannot write
                    await self._session.prepare()
            if unanswered is None:
                outcome = await self._session.claim(
                    self._registration, replace=replace, raise_by=raise_by, replaces_ours=replaces_ours, surpass=surpass
                )
            else:
                outcome = await self._session.claim_unanswered(
                    self._registration, unanswered, raise_by=raise_by, surpass=surpass
                )
        except SessionEnded as error:
            return events.ClaimFailed(str(error))
        except Refused as error:
            return events.Lost(str(error), needs_mending=True)
        self._is_sure = True
        if isinstance(outcome, events.Claimed):
            self._answer_challenges(outcome)
            await self._read_cluster_id()
        return outcome

    def _answer_challenges(self, claimed: events.Claimed | None) -> None:
        """Answer standbys as the leader that has this claim, and no more as the one before."""
        if self._answering is not None:
            self._answering.end()
            self._answering = None
        if claimed is not None:
            self._answering = Answering(self.bridge, self._own_id, claimed.fence_version, self._tell)
            self._answering.begin()

    def doubt(self) -> None:
        """A term has failed, or the next session may show older data: repeat the checks before the next claim."""
        self._is_sure = False

    async def _read_cluster_id(self) -> None:
        """A term can do without it; only clients are shown it."""
        try:
            self.cluster_id = await self._session.cluster_id()
        except (Refused, SessionEnded) as error:
            _log.warning("cannot read the cluster's id", reason=str(error))

    async def hand_over(self, claimed: events.Claimed) -> None:
        """Name a standby as successor, and wait for it to lead, at most for a second; without one, do nothing.

        To find one may take a second, too.
        """
        try:
            self._may_be_named = True
            async with asyncio.timeout(self._hand_over_s) as self._handing_over:
                replaced_by = await handing_over.hand_over(
                    self.bridge, self._own_id, claimed.fence_version, self._named
                )
            if replaced_by is not None:
                _log.info("the successor leads", successor=replaced_by)
        except TimeoutError:
            _log.warning("no successor takes over; giving up /controller")
        except (Disconnected, SessionEnded, Refused) as error:
            _log.warning("no successor can be named", reason=str(error))
        finally:
            self._handing_over = None

    def _named(self, to: int) -> None:
        _log.info("waiting for a successor to take over", successor=to)
        if self._handing_over is not None and not self._handing_over.expired():
            self._handing_over.reschedule(asyncio.get_running_loop().time() + self._hand_over_s)

    async def give_up(self, claimed: events.Claimed) -> bool:
        """Delete `/controller` and our registration if they are still ours. False if ZooKeeper does not answer."""
        self._answer_challenges(None)
        try:
            async with asyncio.timeout(self._give_up_s) as self._patience:
                if self._may_be_named:
                    await handing_over.withdraw(self.bridge)
                    self._may_be_named = False
                was_held = await self._session.release(claimed.fence_version)
            if was_held:
                _log.info("gave up /controller")
        except TimeoutError:
            _log.warning("ZooKeeper does not answer; our claim is removed when it answers or when the session expires")
            return False
        except (SessionEnded, Refused) as error:
            _log.info("nothing to give up", reason=str(error))
        return True

    def cut_short(self) -> None:
        """Wait for no successor, and not for long for ZooKeeper to confirm that a claim was given up."""
        self._give_up_s = min(self._give_up_s, HASTE_S)
        self._hand_over_s = 0.0
        for patience, for_s in ((self._patience, HASTE_S), (self._handing_over, 0.0)):
            if patience is not None and not patience.expired():
                with contextlib.suppress(RuntimeError):  # it has ended
                    patience.reschedule(asyncio.get_running_loop().time() + for_s)

    async def close(self) -> None:
        """End the session; ZooKeeper then removes our ephemeral znodes."""
        self._session.stop()
        await self.bridge.stop()

    def _new_session(self) -> tuple[Bridge, Session]:
        bridge = self._new_bridge(self._settings.zookeeper)
        return bridge, Session(bridge, self._session_changed, self._own_id)

    def _session_changed(self, event: events.SessionEvent) -> None:
        match event:
            case events.Suspended():
                _log.warning("ZooKeeper connection", state="suspended")
            case events.Resumed():
                _log.info("ZooKeeper connection", state="resumed")
            case events.Reconnected():
                _log.info("new ZooKeeper session established")
            case events.SessionLost():
                self.doubt()
            case events.HolderSeen() | events.HolderUnknown():
                pass  # logged when the candidacy decides on it
        self._tell(event)

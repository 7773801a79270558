"""How does this process reach ZooKeeper, claim `/controller` there, and give it up?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog
from msgspec.structs import replace

from controller.core.candidacy import events
from controller.core.clients.authorization import NOT_KNOWN_YET, Withheld
from controller.preflight.brokers_protocol import SpokenProtocol, SpokenSettings
from controller.preflight.findings import Finding, Gravity, Verdict, once_passed, once_sound
from controller.preflight.inheriting import Inherited, difference
from controller.preflight.looking import sentences
from controller.runtime.supervision import Troubles, reason_of
from controller.settings.claiming import ClaimSettings
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.versions import InterBrokerProtocol, parse_wanted
from controller.zk import whereabouts
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
    """Who looks whether this process may lead the cluster: `controller.preflight.looking.Preflight`."""

    async def look(self, bridge: Bridge, clash: Clash) -> Verdict:
        """Everything, once; nothing is written."""


class Claimant:
    """The part of this process that stands for election in ZooKeeper; it decides nothing."""

    def __init__(
        self,
        settings: ClaimSettings,
        preflight: Preflight,
        tell: Callable[[events.Event], None],
        *,
        new_bridge: Callable[[ZooKeeperSettings], Bridge] = Bridge,
        troubles: Troubles | None = None,
    ) -> None:
        """Nothing is connected yet. `tell` is called on the event loop, with everything that a candidacy must know."""
        self._settings = settings
        self._new_bridge = new_bridge
        self._tell = tell
        self._own_id = settings.own_id
        self._registration = settings.registration
        self._give_up_s = settings.request_timeout_s
        self._preflight = preflight
        self._set_protocol = parse_wanted(settings.protocol)
        self._spoken = SpokenProtocol()
        self._spoken_settings = SpokenSettings(settings.given)
        self._warned: tuple[Finding, ...] = ()
        self._withheld: Withheld | None = NOT_KNOWN_YET
        self._is_unsound = False
        self._has_passed = False
        self._found: dict[str, str] = {}
        self._changes: list[str] = []
        self._troubles = troubles or Troubles()
        self.cluster_id: str | None = None
        self._is_sure = False
        self._patience: asyncio.Timeout | None = None
        self.bridge, self._session = self._new_session()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not forbid a claim, and an operator should look at."""
        return tuple(map(str, self._warned))

    @property
    def withheld(self) -> Withheld | None:
        """Why clients must not be served, by what brokers have told of who judges; None where they may."""
        return self._withheld

    @property
    def protocol(self) -> InterBrokerProtocol:
        """In which manner brokers are to be led by the next term: as the operator has set it, or as they tell."""
        return self._set_protocol or self._spoken.value

    @property
    def inherited(self) -> Inherited:
        """What the next term has from the brokers."""
        return self._spoken_settings.value

    @property
    def has_passed(self) -> bool:
        """Whether this process has found the cluster sound: before, it writes nothing to ZooKeeper."""
        return self._has_passed

    async def reach(self) -> None:
        """Watch `/controller`, however long it takes until ZooKeeper can be reached; then look at the cluster, however
        long it takes until we may lead it; tells how that goes."""
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
                    await asyncio.sleep(TURNED_AWAY_S)  # somebody has to change something first
            except (Refused, SessionEnded) as error:
                self._tell(events.StartRefused(str(error)))
                return
            except Exception as error:  # nothing was claimed yet; another session may be luckier
                _log.exception("ZooKeeper was not reached because of an error that nobody expected; trying again")
                self._session.stop()
                await self.bridge.stop()
                self.bridge, self._session = self._new_session()
                self._tell(events.Unreachable(reason_of(error)))
                await asyncio.sleep(TURNED_AWAY_S)
            else:
                if clash is not None and not clash.is_our_past:
                    self._tell(clash)
                    return
                await self._look_until_brokers_have_spoken()
                await self._keep_looking()
                return

    def _not_reached(self, reason: str) -> None:
        _log.warning("cannot reach ZooKeeper; trying again", reason=reason)
        self._tell(events.Unreachable(reason))

    async def _look_until_brokers_have_spoken(self) -> None:
        """What has been found sound once stays so, however many brokers die: then a controller is needed most.

        Where no broker runs nobody has said that it can be led from here; who leads all the same looks again.
        """
        wait_s = FIRST_LOOK_AGAIN_S
        while True:
            verdict = await self._look()
            if verdict is None or verdict.stops:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_LOOK_AGAIN_S)
                continue
            if verdict.have_brokers_spoken:
                return
            wait_s = FIRST_LOOK_AGAIN_S
            await asyncio.sleep(UNTIL_BROKERS_SPEAK_S)

    async def _keep_looking(self) -> None:
        """Follow the brokers' protocol, their settings and who judges requests, and see warnings end; only that all of
        them judge by what this process does not have forbids to lead on.

        A broker changes them only by a restart, or by its znode below `/config/brokers`, and both show in ZooKeeper; a
        mute one is asked again in a while.
        """
        due_at, wait_s, as_of = 0.0, LOOK_FOR_CHANGES_EVERY_S, None
        while True:
            await asyncio.sleep(LOOK_FOR_CHANGES_EVERY_S)
            now = asyncio.get_running_loop().time()
            try:
                await self._tell_change()
                latest = await whereabouts.brokers_as_of(self.bridge)
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
            due_at, as_of = now + (LOOK_AT_ALL_EVERY_S if verdict.have_all_spoken else wait_s), latest
            self._judge_again(once_sound(verdict.findings))

    def _judge_again(self, findings: tuple[Finding, ...]) -> None:
        """What follows for a process that has passed, and may lead by now."""
        self._warn(findings)
        stops = [finding for finding in findings if finding.gravity is Gravity.STOP]
        if stops:
            self._tell(events.Unsound(sentences(stops)))
        elif self._is_unsound:
            self._tell(events.Watching())
        self._is_unsound = bool(stops)

    def _hear(self, verdict: Verdict) -> None:
        """What brokers tell of their protocol, their settings and who judges, now that the look has come to an end."""
        self._withhold(verdict.withheld)
        before = self.protocol
        self._troubles.right(PART)
        now = asyncio.get_running_loop().time()
        has_changed = self._spoken.heard(verdict.protocols, now)
        if self._set_protocol is None and has_changed:
            _log.info("inter.broker.protocol.version found out", before=str(before), now=str(self.protocol))
            self._changes.append(f"inter.broker.protocol.version is {self.protocol} now, and was {before}")
        known = self.inherited
        if self._spoken_settings.heard(verdict.settings, now, has_any_spoken=verdict.have_brokers_spoken):
            if taken := self.inherited.shown():
                _log.info("settings taken from the brokers", **taken)
            if self._has_passed:
                self._changes.append(f"settings of the brokers: {difference(known, self.inherited)}")

    def _withhold(self, withheld: Withheld | None) -> None:
        """What is known stays known while no broker answers."""
        if withheld == self._withheld or withheld == NOT_KNOWN_YET:
            return
        if withheld is not None:
            _log.error("requests of clients are refused, those of brokers are not", reason=withheld.reason)
        elif self._withheld is not None and self._withheld.is_known:
            _log.info("requests of clients are served again")
        self._withheld = withheld

    async def _tell_change(self) -> None:
        """Of a change that only another term can follow; as long as that could not load, the present one goes on."""
        if self._changes and await self._session.hindrance() is None:
            changes, self._changes = self._changes, []
            self._tell(events.ProtocolChanged("; ".join(changes)))

    async def _look(self) -> Verdict | None:
        """Look once, and tell what follows from it; None where ZooKeeper or a bug came between."""
        try:
            verdict = await self._preflight.look(self.bridge, lambda: self._session.clash(self._registration))
            if self._has_passed:
                verdict = replace(verdict, findings=once_passed(verdict.findings))
            if not verdict.stops:
                await self._session.prepare()
                self._is_sure = await self._session.hindrance() is None
            self._hear(verdict)
            await self._tell_change()
        except SessionEnded:
            return None  # the next session shows it
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
        """Nothing was found out: no reason to claim, and none to end what has begun."""
        is_refused = isinstance(error, Refused)
        reason = f"ZooKeeper: {error}" if is_refused else reason_of(error)
        self._troubles.wrong(PART, "looking at the cluster failed", reason, None if is_refused else error)
        if not self._has_passed:
            self._tell(events.Unsound(reason))

    def _warn(self, findings: tuple[Finding, ...]) -> None:
        """Say what is new of what does not forbid a claim."""
        warnings = tuple(finding for finding in findings if finding.gravity is Gravity.WARNING)
        for warning in warnings:
            if warning not in self._warned:
                _log.warning(f"pre-flight: {warning.text}", check=warning.check.value, hint=warning.hint)
        self._warned = warnings

    def _pass(self, verdict: Verdict) -> None:
        """Say that nothing forbids a claim, if that or what was seen is news."""
        if not self._has_passed:
            self._has_passed = True
            _log.info("standing by", broker=self._own_id, zookeeper=self._settings.zookeeper.connect)
        found = {f.check.value: f.text for f in verdict.findings if f.gravity is Gravity.OK}
        if found != self._found:
            self._found = found
            _log.info("pre-flight passed", **found)

    async def claim(self, *, replace: bool, raise_by: int = 1, replaces_ours: bool = False) -> events.ClaimOutcome:
        """Try to become the controller, and what came of it.

        What would end the term at once is found out before: a claim that is won and given up again raises the epoch.
        """
        try:
            if not self._is_sure:
                if reason := await self._session.hindrance():
                    return events.Lost(reason, needs_mending=True)
                with contextlib.suppress(Refused):  # a term tells what it cannot write
                    await self._session.prepare()
            outcome = await self._session.claim(
                self._registration, replace=replace, raise_by=raise_by, replaces_ours=replaces_ours
            )
        except SessionEnded as error:
            return events.ClaimFailed(str(error))
        except Refused as error:
            return events.Lost(str(error), needs_mending=True)
        self._is_sure = True
        if isinstance(outcome, events.Claimed):
            await self._read_cluster_id()
        return outcome

    def doubt(self) -> None:
        """A term has failed, or what the next session shows may be older: what a term needs is looked at again before
        the next claim."""
        self._is_sure = False

    async def _read_cluster_id(self) -> None:
        """Only clients are told; a term can do without."""
        try:
            self.cluster_id = await self._session.cluster_id()
        except (Refused, SessionEnded) as error:
            _log.warning("cannot read the cluster's id", reason=str(error))

    async def give_up(self, claimed: events.Claimed) -> bool:
        """Give `/controller` and our registration back, as far as they are still ours; False if nobody answers."""
        try:
            async with asyncio.timeout(self._give_up_s) as self._patience:
                was_held = await self._session.release(claimed.fence_version)
            if was_held:
                _log.info("gave up /controller")
        except TimeoutError:
            _log.warning("ZooKeeper does not answer; our claim is removed when it answers or when the session expires")
            return False
        except (SessionEnded, Refused) as error:
            _log.info("nothing to give up", reason=str(error))
        return True

    def hasten(self) -> None:
        """Wait hardly any longer for ZooKeeper to answer that a claim was given up."""
        self._give_up_s = min(self._give_up_s, HASTE_S)
        if self._patience is not None and not self._patience.expired():
            with contextlib.suppress(RuntimeError):  # it is over
                self._patience.reschedule(asyncio.get_running_loop().time() + HASTE_S)

    async def close(self) -> None:
        """End the session; what is still ours in ZooKeeper goes with it."""
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
                pass  # what follows from it is said when it is decided
        self._tell(event)

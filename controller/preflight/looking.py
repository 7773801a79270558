"""How does this process look at a cluster before it leads it?

It asks ZooKeeper, each broker and itself; it writes nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from controller.connections.broker import Broken, BrokerConnection, Dialer
from controller.core.candidacy.events import IdClash
from controller.core.candidacy.migrating import MigrationPhase
from controller.core.clients.authorization import NOT_KNOWN_YET
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.preflight.brokers_protocol import Remembered
from controller.preflight.findings import Check, Finding, Gravity, Verdict, tolerating
from controller.preflight.inheriting import POLICY, BrokerSettings
from controller.preflight.judging import UNNAMED, authorizers, judge, protocols, withheld
from controller.preflight.leaving import ENABLED, unready
from controller.preflight.own_listeners import ListenersOfRunningReplica
from controller.preflight.sightings import AddressTried, BrokerSeen, Seen, Wanted
from controller.settings.preflight import GRANTS, PROTECTING
from controller.wire import broker_configs
from controller.wire.api_versions import encode_question
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.cursor import Malformed
from controller.wire.versions import parse_reported
from controller.zk import inspection, preparation
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

ANSWER_WITHIN_S = 2.0
AT_ONCE = 64
_PROTOCOL, _AUTHORIZER = "inter.broker.protocol.version", "authorizer.class.name"
_CONTROL_PLANE, _BETWEEN_BROKERS = "control.plane.listener.name", "inter.broker.listener.name"
_BETWEEN_BROKERS_BY_DEFAULT = "security.inter.broker.protocol"


class OwnListeners(Protocol):
    """Our own listeners: which clients have connected? `controller.server.listener.Server`."""

    def expect(self, client_id: str) -> Callable[[], bool]:
        """Watch for a client with this id. The function returned says whether it has come, and stops watching."""


class Preflight:
    """Runs the checks. One for the life of a process."""

    def __init__(
        self,
        wanted: Wanted,
        advertised: Sequence[Endpoint],
        dialer: Dialer,
        own_listeners: OwnListeners | None,
        *,
        ourselves: Dialer | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Without `own_listeners` it is not checked whether this process can be reached; `ourselves` connects to it, if
        not in the same way as to brokers."""
        self._ourselves = ourselves or dialer
        self._wanted = wanted
        self._advertised = advertised
        self._dialer = dialer
        self._own_listeners = own_listeners
        self._wall_clock = wall_clock
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._authorizers: dict[BrokerId, str] = {}
        self._migrates: Remembered[bool] = Remembered()

    def expect(self, wanted: Wanted) -> None:
        """Compare the cluster with this from now on."""
        self._wanted = wanted

    async def look(self, bridge: Bridge, clash: Callable[[], Awaitable[IdClash | None]]) -> Verdict:
        """Run all checks once. Takes as long as the slowest broker, and at most a few seconds.

        Raises:
            SessionEnded: the session has ended.
        """
        try:
            seen = await self._see(bridge, await clash())
        except Refused as error:
            hint = "give this process the right to read it"
            finding = Finding(Check.PERMISSIONS, Gravity.STOP, f"ZooKeeper: {error}", hint)
            return Verdict((finding,), has_any_answered=False, have_all_answered=False, withheld=NOT_KNOWN_YET)
        findings = tolerating(judge(self._wanted, seen), self._wanted.tolerated)
        answered = [broker.has_answered for broker in seen.brokers.values() if broker.endpoint is not None]
        settings = {broker: one.settings for broker, one in seen.brokers.items()}
        self._authorizers = authorizers(seen, self._authorizers)
        kept_back = withheld(self._wanted, self._authorizers)
        return Verdict(findings, any(answered), all(answered), protocols(seen), settings, kept_back, seen.migration)

    async def _see(self, bridge: Bridge, clash: IdClash | None) -> Seen:
        place, registered, migration = await asyncio.gather(
            inspection.place(bridge), preparation.registrations(bridge), inspection.migration(bridge)
        )
        others = {broker: r for broker, r in registered.items() if broker != self._wanted.own_id}
        is_bare = not place.has_cluster_id and not others
        elsewhere = await inspection.clusters_elsewhere(bridge) if is_bare else ()
        brokers, assigned, lacking, addresses, written_ms, registrations = await asyncio.gather(
            self._brokers(others),
            inspection.assigned_to(bridge, self._wanted.own_id, place.topics),
            inspection.lacking(bridge, place.topics),
            self._addresses(others),
            inspection.last_written_ms(bridge, tuple(others)),
            inspection.grants_of_brokers(bridge, tuple(others)),
        )
        migrates = self._migrates.update(
            {broker: one.migrates for broker, one in brokers.items()}, asyncio.get_running_loop().time()
        )
        seen = Seen(
            place,
            brokers,
            elsewhere,
            clash.reason if clash is not None and not clash.is_our_past else None,
            assigned,
            lacking,
            addresses,
            written_ms / 1000 - self._wall_clock(),
            registrations,
            migration,
            frozenset(broker for broker, has_said_so in migrates.items() if has_said_so),
            frozenset(broker for broker, has_said_so in migrates.items() if not has_said_so),
        )
        # Reading all topics is dear, so that it comes last: KRaft, too, asks for them only then.
        if migration is MigrationPhase.WAITING and not unready(seen):
            seen = replace(seen, hosts=await inspection.hosts(bridge, place.topics))
        return seen

    async def _brokers(self, registered: dict[BrokerId, Registration]) -> dict[BrokerId, BrokerSeen]:
        asked = await asyncio.gather(*(self._broker(broker, r) for broker, r in sorted(registered.items())))
        return dict(zip(sorted(registered), asked, strict=True))

    async def _broker(self, broker: BrokerId, registration: Registration) -> BrokerSeen:
        listeners = tuple(endpoint.listener for endpoint in registration.endpoints)
        endpoint = registration.endpoint(self._wanted.listener)
        if endpoint is None:
            return BrokerSeen(listeners, None, rack=registration.rack)
        async with self._slots:
            connection = BrokerConnection(self._dialer, endpoint)
            ranges = None
            try:
                ranges = await connection.versions(ANSWER_WITHIN_S)
                found = await _configs_of(broker, connection, ranges.get(ApiKey.DESCRIBE_CONFIGS))
            except Broken as error:
                return BrokerSeen(listeners, endpoint, ranges, failure=str(error), rack=registration.rack)
            finally:
                connection.drop()
        unchanged = (ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT)
        reported = {key: config.value or "" for key, config in found.items() if config.source in unchanged}
        protocol, authorizer = reported.get(_PROTOCOL, ""), reported.get(_AUTHORIZER)
        return BrokerSeen(
            listeners,
            endpoint,
            ranges,
            protocol=parse_reported(protocol),
            reported=protocol,
            authorizer=authorizer,
            settings=_settings_of(found) if _PROTOCOL in found else None,
            looks_on=_looks_on(reported),
            rack=registration.rack,
            grants=frozenset(key for key in GRANTS if key in reported),
            migrates=reported.get(ENABLED, "").lower() == "true",
        )

    async def _addresses(self, registered: dict[BrokerId, Registration]) -> tuple[AddressTried, ...]:
        if self._own_listeners is None:
            return ()
        whose = {
            (endpoint.host, endpoint.port): f"broker {broker}"
            for broker, registration in registered.items()
            for endpoint in registration.endpoints
        }
        tried = (self._address(endpoint, self._own_listeners, whose) for endpoint in self._advertised)
        return tuple(await asyncio.gather(*tried))

    async def _address(
        self, endpoint: Endpoint, own_listeners: OwnListeners, whose: dict[tuple[str, int], str]
    ) -> AddressTried:
        """Connect as a broker would; the client id used is random."""
        is_for_brokers = endpoint.listener in self._wanted.reached_over
        name = f"kafka-zk-controller preflight {secrets.token_hex(8)}"
        has_come = own_listeners.expect(name)
        connection = BrokerConnection(self._ourselves, endpoint)
        failure = ""
        try:
            await connection.ask(encode_question(name, connection.next_correlation_id()), timeout_s=ANSWER_WITHIN_S)
        except Broken as error:
            failure = str(error)
        finally:
            connection.drop()
        if has_come():
            return AddressTried(endpoint, is_for_brokers)
        owner = whose.get((endpoint.host, endpoint.port), "")
        if isinstance(own_listeners, ListenersOfRunningReplica) and not (failure or owner):
            return AddressTried(endpoint, is_for_brokers, is_proven=False)
        if not failure:
            owner = owner or "another process"
        return AddressTried(endpoint, is_for_brokers, failure or "another process answers", owner)


async def _configs_of(
    broker: BrokerId, connection: BrokerConnection, offered: VersionRange | None
) -> dict[str, BrokerConfig]:
    """The broker's own settings; one that does not let us ask has an authorizer of unknown name.

    Raises:
        Broken: it does not answer. Then nothing is known, and to assume a refusal would be a guess.
    """
    if offered is None or broker_configs.VERSION not in offered:
        return {}
    listeners = (_CONTROL_PLANE, _BETWEEN_BROKERS, _BETWEEN_BROKERS_BY_DEFAULT)
    keys = (_PROTOCOL, _AUTHORIZER, *listeners, POLICY, *PROTECTING, *GRANTS, ENABLED)
    question = broker_configs.encode_question(broker, keys, connection.next_correlation_id())
    answer = await connection.ask(question, timeout_s=ANSWER_WITHIN_S)
    try:
        found = broker_configs.decode_answer(answer)
    except Malformed:
        return {}
    except broker_configs.Refused as refused:
        is_forbidden = refused.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return {_AUTHORIZER: BrokerConfig(UNNAMED, ConfigSource.STATIC_BROKER)} if is_forbidden else {}
    return {key: config for key, config in found.items() if key in keys}


def _settings_of(found: Mapping[str, BrokerConfig]) -> BrokerSettings:
    """Cluster-wide dynamic settings are left out: they are followed in ZooKeeper and override these."""
    fixed, dynamic = {}, {}
    for key, config in found.items():
        below = config.otherwise if config.source in broker_configs.AT_RUN_TIME else config.value
        if key in PROTECTING and below is not None:
            fixed[key] = below
        if key in PROTECTING and config.source is ConfigSource.DYNAMIC_BROKER and config.value is not None:
            dynamic[key] = config.value
    policy = found[POLICY].value if POLICY in found else None
    return BrokerSettings(fixed, dynamic, policy or "")


def _looks_on(reported: dict[str, str]) -> frozenset[str]:
    """The listener between brokers for a controlled shutdown, the control plane's for everything else."""
    between = reported.get(_BETWEEN_BROKERS) or reported.get(_BETWEEN_BROKERS_BY_DEFAULT, "")
    return frozenset(name.upper() for name in (between, reported.get(_CONTROL_PLANE, "")) if name)


def sentences(findings: Iterable[Finding]) -> str:
    """Several findings in one line."""
    return " | ".join(map(str, findings))

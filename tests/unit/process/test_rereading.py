"""An edited configuration counts as far as it can without a restart, and the rest is named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest
from structlog.testing import capture_logs

from controller import logs
from controller.core.candidacy.phases import TakeOver
from controller.core.settings import MachineSettings
from controller.monitoring import authorizer_log
from controller.preflight.inheriting import BrokerSettings
from controller.process.daemon import Daemon
from controller.process.rereading import PART
from controller.settings import Settings, load
from controller.settings.table import SETTINGS
from zk_layout.ids import BrokerId

JAAS = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="{}" password="{}";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="{}";'
AT_FIRST = {
    "zookeeper.connect": "zk:2181",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.keystore.location": "/zk/keys.jks",
    "zookeeper.ssl.truststore.location": "/zk/trusted.jks",
    "broker.id": "901",
    "listeners": "PLAINTEXT://127.0.0.1:9095,SASL_PLAINTEXT://127.0.0.1:9096",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.jaas.config": SCRAM.format("the old password"),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ann",
    "http.port": "0",
}
OTHERS: Mapping[str, str] = {
    "reassignment.moves.order": "round-robin",
    "reassignment.moves.wait.for.disks.unknown": "begin",
    "reassignment.moves.windows": "Mon-Fri 22:00-06:00 Europe/Berlin",
    "zookeeper.connect": "other:2181",
    "zookeeper.connection.timeout.ms": "1000",
    "zookeeper.ssl.client.enable": "false",
    "zookeeper.ssl.keystore.location": "/zk/other.jks",
    "zookeeper.ssl.truststore.location": "/zk/others.jks",
    "zookeeper.ssl.keystore.type": "PEM",
    "zookeeper.ssl.truststore.type": "PEM",
    "zookeeper.ssl.protocol": "TLSv1.3",
    "zookeeper.ssl.enabled.protocols": "TLSv1.3",
    "zookeeper.ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "zookeeper.ssl.endpoint.identification.algorithm": "",
    "zookeeper.sasl.jaas.config": JAAS.format("kafka", "the new password"),
    "zookeeper.digest.credentials": "kafka:the new password",
    "broker.id": "902",
    "listeners": "PLAINTEXT://127.0.0.1:9097,SASL_PLAINTEXT://127.0.0.1:9096",
    "advertised.listeners": "PLAINTEXT://elsewhere:9095",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "control.plane.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "inter.broker.protocol.version": "3.9",
    "controller.takeover": "when-vacant",
    "controller.preflight.tolerate": "rack",
    "max.connections.per.ip.overrides": "10.0.0.1:7",
    "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
    "super.users": "User:bob",
    "http.port": "9641",
    "log.level": "warning",
    "log.authorizer.level": "off",
    "log.format": "json",
}
"""Other values than those in force. Of other keys it is the opposite, a smaller number, or any text."""


def other(key: str) -> str:
    """Another valid value for a setting."""
    if key in OTHERS:
        return OTHERS[key]
    default = next(one.default for one in SETTINGS if one.key == key)
    if isinstance(default, bool):
        return str(not default).lower()
    return str(default - 1 if default and default > 1 else 2) if isinstance(default, int) else "another"


def begin_logs(settings: Settings) -> None:
    """As the command does that starts the process."""
    logs.set_level(settings.logs.level)
    logs.set_level_of(authorizer_log.LOGGER, settings.logs.authorizer_level)


class Told:
    """A term of the process: what it is told."""

    def __init__(self) -> None:
        self.settings: MachineSettings | None = None
        self.response_timeout_s = self.drain_timeout_s = 0.0
        self.machine = SimpleNamespace(is_paused=False)

    def adjust(self, settings: MachineSettings, response_timeout_s: float, drain_timeout_s: float) -> None:
        """Note it."""
        self.settings, self.response_timeout_s, self.drain_timeout_s = settings, response_timeout_s, drain_timeout_s


class Process:
    """A process with a configuration, that leads."""

    def __init__(self, folder: Path, written: Mapping[str, str]) -> None:
        self.path = folder / "controller.properties"
        self.write(written)
        settings = self.read()
        begin_logs(settings)
        self.daemon = Daemon(settings, None, self.read)
        self.term = Told()
        self.daemon._terms._term = self.term  # type: ignore[assignment]  # what it is told is looked at
        self.daemon._terms.adjust(settings.term)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.daemon._exporter.stop()
        await self.daemon._claimant.close()
        await self.daemon._server.close()

    def write(self, written: Mapping[str, str]) -> None:
        """What the operator writes."""
        self.path.write_text("".join(f"{key}={value}\n" for key, value in written.items()))

    def read(self) -> Settings:
        """What the process reads."""
        return load(self.path, [], {})

    async def hears_of(self, written: Mapping[str, str]) -> tuple[str, ...]:
        """The operator edits the configuration, and has it read again: what waits for a restart."""
        self.write(written)
        await self.daemon._in_force.follow()
        return self.daemon.status().settings_pending

    def shown(self, key: str) -> object:
        """What a client is shown that describes this node."""
        return self.daemon._server._service.own_configs()[key].value


def of_machine(*names: str) -> Callable[[Process], object]:
    return lambda process: [getattr(process.term.settings, name) for name in names]


def of_limits(name: str) -> Callable[[Process], object]:
    def look(process: Process) -> object:
        server = process.daemon._server
        known = (server._limits, server._service.limits, server._service.quotas._limits)
        assert len({str(getattr(limits, name)) for limits in known}) == 1
        return getattr(server._limits, name)

    return look


def of_pools(process: Process) -> object:
    pools = process.daemon._server._service.pools
    return [pool._most_bytes for pool in (pools._large, pools._medium, pools._from_brokers, pools.responses)]


def of_requests(process: Process) -> object:
    brokers = process.daemon._server._brokers
    assert brokers is not None
    assert process.daemon._claimant._give_up_s == brokers.timeout_s
    return brokers.timeout_s


WHERE: Mapping[str, Callable[[Process], object]] = {
    "connection.failed.authentication.delay.ms": of_limits("failed_login_delay_s"),
    "controller.takeover": lambda process: process.daemon._candidacy._settings.take_over,
    "controller.socket.timeout.ms": lambda process: process.term.response_timeout_s,
    "request.timeout.ms": of_requests,
    "controller.drain.timeout.ms": lambda process: process.term.drain_timeout_s,
    "socket.request.max.bytes": of_limits("most_request_bytes"),
    "queued.max.request.bytes": of_pools,
    "connections.max.idle.ms": of_limits("idle_s"),
    "max.connections": of_limits("most_connections"),
    "max.connections.per.ip": of_limits("most_per_address"),
    "max.connections.per.ip.overrides": of_limits("most_for_address"),
    "max.connection.creation.rate": of_limits("most_new_per_s"),
    "unclean.leader.election.enable": of_machine("unclean_election"),
    "num.partitions": of_machine("defaults"),
    "default.replication.factor": of_machine("defaults"),
    "min.insync.replicas": of_machine("min_insync_replicas"),
    "create.topic.policy.ignore": lambda process: process.daemon._preflight._wanted.ignores_policy,
    "controller.quota.window.num": of_machine("quota_window_s"),
    "controller.quota.window.size.seconds": of_machine("quota_window_s"),
    "auto.leader.rebalance.enable": of_machine("rebalance_every_s"),
    "leader.imbalance.check.interval.seconds": of_machine("rebalance_every_s"),
    "leader.imbalance.per.broker.percentage": of_machine("imbalance_percentage"),
    "delegation.token.expiry.check.interval.ms": of_machine("token_expiry_check_s"),
    "controlled.shutdown.redundancy": of_machine("shutdown_redundancy"),
    "reassignment.deletion.patience.ms": of_machine("deletion_patience_s"),
    "reassignment.moves.at.once": of_machine("moves_at_once"),
    "reassignment.changes.per.second": of_machine("changes_a_second"),
    "reassignment.moves.give.up.ms": of_machine("moves_give_up_s"),
    "reassignment.moves.into.rack": of_machine("moves_into_rack"),
    "reassignment.moves.wait.for.znodes": of_machine("moves_wait_for_znodes"),
    "reassignment.moves.into.broker": of_machine("moves_into_broker"),
    "reassignment.moves.out.of.broker": of_machine("moves_out_of_broker"),
    "reassignment.moves.throttle": of_machine("moves_throttle"),
    "reassignment.moves.throttle.min": of_machine("moves_throttle_min"),
    "reassignment.moves.order": of_machine("moves_order"),
    "reassignment.moves.windows": of_machine("moves_windows"),
    "reassignment.moves.wait.for.min.isr": of_machine("moves_need_min_isr"),
    "reassignment.moves.wait.for.brokers": of_machine("moves_need_brokers"),
    "reassignment.moves.wait.for.brokers.after.ms": of_machine("moves_need_brokers_after_s"),
    "reassignment.moves.wait.for.receivers.ms": of_machine("moves_need_receivers_s"),
    "reassignment.moves.wait.for.disks.percent": of_machine("moves_need_disks_percent"),
    "reassignment.moves.wait.for.disks.unknown": of_machine("moves_ignore_unknown_disks"),
    "reassign.partitions.status.min.retention.ms": of_machine("status_retention_ms"),
    "log.level": lambda _: logging.getLogger().level,
    "log.authorizer.level": lambda _: logging.getLogger(authorizer_log.LOGGER).level,
}
"""Where a setting counts: it is looked for in the parts of a process, not in its settings."""


@pytest.fixture(autouse=True)
def _levels_of_the_log() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, authorizer_log.LOGGER, *logs.LOUD_LIBRARIES)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("key", [one.key for one in SETTINGS if one.counts_at_once])
def test_a_setting_marked_so_counts_at_once_as_it_would_after_a_restart(key: str, tmp_path: Path) -> None:
    edited = {**AT_FIRST, key: other(key)}

    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            before = WHERE[key](process)
            assert await process.hears_of(edited) == ()
            now = WHERE[key](process)

            assert await process.hears_of(AT_FIRST) == ()
            assert WHERE[key](process) == before
        async with Process(tmp_path, edited) as another:
            assert now == WHERE[key](another) != before

    asyncio.run(story())


@pytest.mark.parametrize("key", [one.key for one in SETTINGS if not one.counts_at_once])
def test_any_other_setting_waits_for_a_restart_and_is_named(key: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            before = process.daemon._in_force.settings

            (pending,) = await process.hears_of({**AT_FIRST, key: other(key)})

            assert pending.startswith(f"{key} ")
            assert "restart" in pending
            assert "the new password" not in pending
            assert process.daemon._in_force.settings == before
            assert await process.hears_of(AT_FIRST) == ()

    asyncio.run(story())


def test_a_configuration_that_cannot_be_used_changes_nothing_and_all_that_is_wrong_is_said(tmp_path: Path) -> None:
    wrong = {**AT_FIRST, "log.level": "chatty", "max.connections": "7", "zookeeper.digest.credentials": "hunter2"}

    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            before = process.daemon._in_force.settings
            for _ in range(2):
                with capture_logs() as said:
                    assert await process.hears_of(wrong) == ()
                (line,) = said
                assert line["event"] == "the configuration cannot be used: all settings stay in force as they are"
                assert [problem.partition(":")[0] for problem in line["problems"]] == [str(process.path)] * 2
                assert "expected one of debug, info, warning, error" in line["problems"][1]
                assert "hunter2" not in str(line)
                (failing,) = process.daemon.status().failing
                assert failing.startswith(f"{PART}: the configuration cannot be used: {process.path}:")
            assert process.daemon._in_force.settings is before
            assert WHERE["max.connections"](process) == 2000

            await process.hears_of({**AT_FIRST, "max.connections": "7"})

            assert process.daemon.status().failing == ()
            assert WHERE["max.connections"](process) == 7

    asyncio.run(story())


def never() -> Settings:
    """A mistake of ours."""
    raise ZeroDivisionError


def test_a_file_that_is_gone_and_an_unexpected_error_change_nothing_either(tmp_path: Path) -> None:
    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            process.path.unlink()
            await process.daemon._in_force.follow()
            assert "cannot be read: No such file or directory" in str(process.daemon.status().failing)

            process.daemon._in_force._read = never
            await process.daemon._in_force.follow()
            assert "ZeroDivisionError" in str(process.daemon.status().failing)

    asyncio.run(story())


def test_changed_secrets_wait_for_a_restart_and_are_not_shown(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("digest=kafka:the first\n")
    kept = {
        **AT_FIRST,
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "zookeeper.digest.credentials": f"${{file:{secrets}:digest}}",
        "broker.rack": f"${{file:{secrets}:digest}}",
    }

    async def story() -> None:
        async with Process(tmp_path, kept) as process:
            secrets.write_text("digest=kafka:the second\n")
            with capture_logs() as said:
                pending = await process.hears_of({**kept, "sasl.jaas.config": SCRAM.format("the third")})

            assert [one.split()[0] for one in pending] == [
                "zookeeper.digest.credentials",
                "broker.rack",
                "sasl.jaas.config",
            ]
            assert f"behind ${{file:{secrets}:digest}}" in pending[1]
            for secret in ("the first", "the second", "the third", "the old password"):
                assert secret not in f"{said}{pending}{process.daemon.status()}"

    asyncio.run(story())


def test_a_limit_for_one_listener_counts_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            assert await process.hears_of({**AT_FIRST, "listener.name.plaintext.max.connections": "7"}) == ()
            assert process.daemon._server._service.quotas._limits.most_per_listener == {"PLAINTEXT": 7}

            await process.hears_of(AT_FIRST)
            assert process.daemon._server._service.quotas._limits.most_per_listener == {}

    asyncio.run(story())


def test_what_is_no_longer_set_here_is_taken_from_the_brokers_again(tmp_path: Path) -> None:
    own = {**AT_FIRST, "num.partitions": "5", "delete.topic.enable": "true"}
    theirs = {BrokerId(1): BrokerSettings({"num.partitions": "3", "delete.topic.enable": "false"})}

    async def story() -> None:
        async with Process(tmp_path, own) as process:
            claimant = process.daemon._claimant
            claimant._brokers_settings.update(theirs, 0.0, has_any_answered=True)

            pending = await process.hears_of(AT_FIRST)

            assert process.term.settings is not None
            assert process.term.settings.defaults.partition_count == 3
            assert claimant.inherited.values == {"num.partitions": 3}
            assert pending == ("delete.topic.enable is not set in the configuration; true is in force until a restart",)

            await process.hears_of({**AT_FIRST, "num.partitions": "1"})
            assert process.term.settings.defaults.partition_count == 1

    asyncio.run(story())


def test_what_was_edited_is_in_force_in_every_later_term(tmp_path: Path) -> None:
    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            process.daemon._terms._term = None

            await process.hears_of({**AT_FIRST, "controlled.shutdown.redundancy": "2"})

            assert process.daemon._terms._machine_settings().shutdown_redundancy == 2

    asyncio.run(story())


def test_a_configuration_is_read_whenever_that_is_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with Process(tmp_path, AT_FIRST) as process:
            keeping = asyncio.create_task(process.daemon._in_force.keep())
            for most in ("7", "8"):
                process.write({**AT_FIRST, "max.connections": most})
                process.daemon._in_force.read_again()
                process.daemon._in_force.read_again()
                async with asyncio.timeout(10):
                    while WHERE["max.connections"](process) != int(most):
                        await asyncio.sleep(0.01)
            keeping.cancel()

    asyncio.run(story())


def test_a_replica_that_left_a_native_controller_alone_may_be_told_to_replace_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with Process(tmp_path, {**AT_FIRST, "controller.takeover": "when-vacant"}) as process:
            await process.hears_of({**AT_FIRST, "controller.takeover": "always"})

            assert process.daemon._candidacy._settings.take_over is TakeOver.ALWAYS

    asyncio.run(story())

"""Clients that describe the controller's node as a broker see the settings it was started with."""

from __future__ import annotations

import asyncio
import struct
from importlib import import_module
from typing import Any

import pytest

from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.settings import load
from controller.settings.own_configs import own_configs
from controller.settings.values import HIDDEN
from controller.wire.versions import parse_protocol, parse_wanted
from tests.unit.server.clients import connected, serving
from tests.unit.server.test_relay import parsed, request

SHOWN = {
    "delete.topic.enable": BrokerConfig("false", ConfigSource.STATIC_BROKER),
    "broker.rack": BrokerConfig(None, ConfigSource.DEFAULT),
    "ssl.key.password": BrokerConfig(None, ConfigSource.STATIC_BROKER, is_sensitive=True),
}
NULL, MINE, LOGGERS = b"\xff\xff\xff\xff", b"\4\0\x041000", b"\x08\0\x041000"


def described(version: int, *resources: bytes) -> list[Any]:
    """The results of one request."""
    is_flexible = version >= 4
    body = b"\2\4\x051000\0\0\0\0\0" if is_flexible else struct.pack(">i", len(resources)) + b"".join(resources)
    if not is_flexible:
        body += bytes((0, 0, 0, 1)[version : version + 1]) if version < 3 else b"\0\0"
    module = import_module(f"kio.schema.describe_configs.v{version}.response")

    async def story() -> list[Any]:
        async with serving() as server, connected(server) as client:
            server.show(lambda: SHOWN)
            answer = await client.ask_raw(request(32, version, body, is_flexible=is_flexible))
            return list(parsed(module, "DescribeConfigsResponse", answer).results)

    return asyncio.run(story())


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_settings_are_shown_with_their_source_and_secrets_without_their_value(version: int) -> None:
    (result,) = described(version, MINE + NULL)

    assert (result.error_code, result.resource_name) == (0, "1000")
    assert [(c.name, c.value, c.read_only, c.config_source, c.is_sensitive) for c in result.configs] == [
        ("delete.topic.enable", "false", True, 4, False),
        ("broker.rack", None, True, 5, False),
        ("ssl.key.password", None, True, 4, True),
    ]


def test_only_what_was_asked_for_is_shown() -> None:
    (result,) = described(1, MINE + struct.pack(">i", 2) + b"\0\x0bbroker.rack\0\1x")

    assert [config.name for config in result.configs] == ["broker.rack"]


def test_it_is_shown_once_however_often_a_request_names_the_node_and_loggers_have_none() -> None:
    first, again, loggers = described(1, MINE + NULL, MINE + NULL, LOGGERS + NULL)

    assert [len(result.configs) for result in (first, again, loggers)] == [3, 0, 0]


def test_what_is_shown_are_kafkas_keys_with_the_protocol_in_force() -> None:
    given = [
        "zookeeper.connect=zk:2181",
        "broker.id=901",
        "listeners=PLAINTEXT://127.0.0.1:9095",
        "delete.topic.enable=false",
    ]
    settings = load(None, given, {}, {"inter.broker.protocol.version": parse_wanted})

    shown = own_configs(settings.values, str(parse_protocol("3.9")))

    assert shown["inter.broker.protocol.version"].value == "3.9-IV0"
    assert shown["delete.topic.enable"] == BrokerConfig("false", ConfigSource.STATIC_BROKER)
    assert shown["num.partitions"] == BrokerConfig("1", ConfigSource.DEFAULT)
    assert shown["broker.rack"] == BrokerConfig(None, ConfigSource.DEFAULT)
    assert HIDDEN not in {config.value for config in shown.values()}
    assert not [key for key in shown if key.startswith("controller.preflight")]

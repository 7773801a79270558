"""Which bytes ask a broker for its own configuration, and what did it answer?

Source: Kafka's DescribeConfigsRequest.json and DescribeConfigsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.wire.api_versions import CLIENT_ID
from controller.wire.apis import ApiKey
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, framed, response_cursor
from controller.wire.schema import encode_entity, request_schema
from zk_layout.ids import BrokerId

VERSION = 1
"""Every broker from 2.4 to 3.9 supports this version, with the same bytes."""

_BROKER = 4  # Kafka's number for this kind of resource
_SOURCES = frozenset(ConfigSource)
AT_RUN_TIME = frozenset({ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER})
"""The source of a broker setting changed at run time."""


class Refused(Exception):
    """The broker refuses to answer; the message is why."""

    def __init__(self, error: ErrorCode, text: str | None) -> None:
        super().__init__(f"DescribeConfigs is refused: {error.name}{f' ({text})' if text else ''}")
        self.error = error


def encode_question(broker: BrokerId, keys: Sequence[str], correlation_id: int) -> bytes:
    """Ask one broker for some of its own settings; the request includes its size."""
    schema = request_schema(ApiKey.DESCRIBE_CONFIGS, VERSION)
    resource = schema.make(
        "DescribeConfigsResource",
        resource_type=_BROKER,
        resource_name=str(broker),
        configuration_keys=tuple(keys),
    )
    header = encode_request_header(RequestHeader(ApiKey.DESCRIBE_CONFIGS, VERSION, correlation_id, CLIENT_ID))
    entity = schema.make("DescribeConfigsRequest", resources=(resource,), include_synonyms=True)
    return framed(header, encode_entity(entity))


def decode_answer(frame: bytes) -> dict[str, BrokerConfig]:
    """The settings in force; `frame` is without its size.

    Raises:
        Malformed: not a response to it.
        Refused: the broker refuses to answer.
    """
    _, cursor = response_cursor(ApiKey.DESCRIBE_CONFIGS, VERSION, frame)
    cursor.int32("throttle_time_ms")
    found: dict[str, BrokerConfig] = {}
    for _ in cursor.array("results", 9):
        error, text = cursor.error(), cursor.nullable_string("error_message")
        cursor.int8("resource_type")
        cursor.string("resource_name")
        for _ in cursor.array("configs", 10):
            _config(cursor, found)
        if error is not ErrorCode.NONE:
            raise Refused(error, text)
    cursor.finish()
    return found


def _config(cursor: Cursor, found: dict[str, BrokerConfig]) -> None:
    name, value = cursor.string("name"), cursor.nullable_string("value")
    cursor.boolean("read_only")
    source = _source(cursor)
    cursor.boolean("is_sensitive")
    otherwise = None
    for _ in cursor.array("synonyms", 5):
        cursor.string("name")
        synonym = cursor.nullable_string("value")
        if _source(cursor) not in AT_RUN_TIME and otherwise is None:
            otherwise = synonym
    found[name] = BrokerConfig(value, source, otherwise=otherwise if source in AT_RUN_TIME else None)


def _source(cursor: Cursor) -> ConfigSource:
    source = cursor.int8("config_source")
    return ConfigSource(source) if source in _SOURCES else ConfigSource.UNKNOWN

"""What does a node that hosts nothing answer to the requests that clients send to every node?

Clients take the controller for one more broker. It truly has no groups, transactions or logs, and no directory to move
a replica to; clients that describe groups are referred to their coordinators, as by any broker. It shows its own
configuration as it was started, and accepts every change without effect: tools that clear throttles do so on every
node, and must not fail here. Clients that try to log in on a plain-text listener get a broker's answer.

Source: Kafka's schemas of the requests in `apis.ANSWERED`; KafkaAdminClient for which node is asked what.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from controller.core.messages.errors import MESSAGES, ErrorCode
from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.wire.apis import ApiKey, is_flexible
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_response_header, framed
from controller.wire.packing import Packing
from controller.wire.requests import reading
from zk_layout.ids import BrokerId

_BROKER, _BROKER_LOGGER = 4, 8
_ERROR = struct.Struct(">h")
_MOVE_RESULT = struct.Struct(">ih")
_NO_LIFETIME = bytes(8)
_UNTHROTTLED = bytes(4)
_NO_OPERATIONS = bytes(4)
_TRUTH = (b"\0", b"\1")
_UNKNOWN_KIND = b"\0"
_UNKNOWN_SIZES = b"\xff" * 16
NO_LOG_DIR = "(a controller keeps no logs)"
_NO_SASL = "This listener has no authentication; set security.protocol=PLAINTEXT"
_FORBIDDEN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
_ELSEWHERE = "Ask a broker: the controller answers here for its own node only"


class ConfigResource(Struct, frozen=True):
    """One thing with a configuration, by Kafka's number for its kind (4: a broker)."""

    kind: int
    name: str
    keys: tuple[str, ...] | None = None
    """The settings wanted; None for all."""

    def is_node(self, node: BrokerId) -> bool:
        """Whether it is the configuration, or the loggers, of this very node."""
        return self.kind in (_BROKER, _BROKER_LOGGER) and self.name == str(node)


def encode_nothing_here(header: RequestHeader, *, is_allowed: bool = True) -> bytes:
    """The answer, with its size, to a request of `ANSWERED` whose content does not matter. Log directories are shown
    only if `is_allowed`.

    Raises:
        ValueError: its content matters.
    """
    api, version = ApiKey(header.api_key), header.api_version
    packing = Packing(is_flexible=is_flexible(api, version))
    nothing, no_error = packing.array(0), _ERROR.pack(ErrorCode.NONE)
    match api:
        case ApiKey.LIST_GROUPS:
            throttle = _UNTHROTTLED if version >= 1 else b""
            body = throttle + no_error + nothing
        case ApiKey.LIST_TRANSACTIONS:
            body = _UNTHROTTLED + no_error + nothing + nothing
        case ApiKey.SASL_HANDSHAKE:
            body = _ERROR.pack(ErrorCode.ILLEGAL_SASL_STATE) + nothing
        case ApiKey.SASL_AUTHENTICATE:
            body = _ERROR.pack(ErrorCode.ILLEGAL_SASL_STATE) + packing.nullable_string(_NO_SASL) + nothing
            body += _NO_LIFETIME if version >= 1 else b""
        case ApiKey.DESCRIBE_LOG_DIRS:
            error = no_error if is_allowed else _ERROR.pack(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            directories = _one_empty_log_dir(packing, version) if is_allowed else nothing
            body = _UNTHROTTLED + (error if version >= 3 else b"") + directories
        case _:
            raise ValueError(f"the answer to {api.name} depends on the request; decode it first")
    return framed(encode_response_header(header), body, packing.no_tags)


def _one_empty_log_dir(packing: Packing, version: int) -> bytes:
    """Clients would read an empty list as a lack of authorization."""
    sizes = _UNKNOWN_SIZES if version >= 4 else b""
    no_error = _ERROR.pack(ErrorCode.NONE)
    return packing.array(1) + no_error + packing.string(NO_LOG_DIR) + packing.array(0) + sizes + packing.no_tags


def decode_groups(header: RequestHeader, frame: bytes) -> tuple[str, ...]:
    """The groups in DescribeGroups.

    Raises:
        MalformedRequest: it is cut off, or claims more than it holds.
    """
    with reading(header, frame) as cursor:
        groups = tuple(cursor.string("group") for _ in cursor.array("groups", 1))
        if header.api_version >= 3:
            cursor.boolean("include_authorized_operations")
        cursor.tags()
    return groups


def encode_groups_answered(header: RequestHeader, groups: Sequence[str], refused: Collection[str]) -> bytes:
    """The answer to DescribeGroups, with its size: this node coordinates none of the groups; some are `refused`."""
    version = header.api_version
    packing = Packing(is_flexible=is_flexible(header.api_key, version))
    unknown = packing.string("") * 3 + packing.array(0) + (_NO_OPERATIONS if version >= 3 else b"") + packing.no_tags
    errors = _ERROR.pack(ErrorCode.NOT_COORDINATOR), _ERROR.pack(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = _UNTHROTTLED if version >= 1 else b""
    pieces = (errors[group in refused] + packing.string(group) + unknown for group in groups)
    return framed(encode_response_header(header), throttle, packing.array(len(groups)), *pieces, packing.no_tags)


def answer_log_dir_moves(header: RequestHeader, frame: bytes, *, is_allowed: bool = True) -> bytes:
    """The answer to AlterReplicaLogDirs, with its size: no replica moves to a directory that does not exist.

    Raises:
        MalformedRequest: it is cut off, or claims more than it holds.
    """
    asked: dict[str, list[int]] = {}
    with reading(header, frame) as cursor:
        for _ in cursor.structs("dirs", 3):
            cursor.string("path")
            for _ in cursor.structs("topics", 3):
                # The answer lists a topic once, even if its partitions go to several directories.
                asked.setdefault(cursor.string("name"), []).extend(cursor.int32s("partitions"))
        cursor.tags()
    packing = Packing(is_flexible=is_flexible(header.api_key, header.api_version))
    error = ErrorCode.LOG_DIR_NOT_FOUND if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    pieces = [encode_response_header(header), _UNTHROTTLED, packing.array(len(asked))]
    for topic, partitions in asked.items():
        results = (_MOVE_RESULT.pack(number, error) + packing.no_tags for number in partitions)
        pieces += (packing.string(topic), packing.array(len(partitions)), *results, packing.no_tags)
    return framed(*pieces, packing.no_tags)


def decode_config_resources(header: RequestHeader, frame: bytes) -> tuple[ConfigResource, ...]:
    """The resources in a request of `CONFIGS`; skips the settings themselves.

    Raises:
        MalformedRequest: it is cut off, or claims more than it holds.
    """
    with reading(header, frame) as cursor:
        return config_resources(cursor, ApiKey(header.api_key), header.api_version)


def config_resources(cursor: Cursor, api: ApiKey, version: int) -> tuple[ConfigResource, ...]:
    """The same, from the beginning of the request's body."""
    resources = tuple(_resource(cursor, api) for _ in cursor.structs("resources", 4))
    if api is not ApiKey.DESCRIBE_CONFIGS:
        cursor.boolean("validate_only")
    else:
        if version >= 1:
            cursor.boolean("include_synonyms")
        if version >= 3:
            cursor.boolean("include_documentation")
    cursor.tags()
    return resources


def _resource(cursor: Cursor, api: ApiKey) -> ConfigResource:
    kind, name, keys = cursor.int8("resource_type"), cursor.string("resource_name"), None
    if api is ApiKey.DESCRIBE_CONFIGS:
        wanted = cursor.nullable_array("configuration_keys", 1)
        keys = None if wanted is None else tuple(cursor.string("key") for _ in wanted)
    else:
        for _ in cursor.structs("configs", 2):
            cursor.string("name")
            if api is ApiKey.INCREMENTAL_ALTER_CONFIGS:
                cursor.int8("config_operation")
            cursor.nullable_string("value")
    return ConfigResource(kind, name, keys)


def encode_configs_answered(
    header: RequestHeader,
    resources: tuple[ConfigResource, ...],
    node: BrokerId,
    shown: Mapping[str, BrokerConfig],
    *,
    is_allowed: bool = True,
) -> bytes:
    """The answer to a request of `CONFIGS`, with its size. This node's changes succeed and its settings are `shown`, if
    `is_allowed`; other resources are refused."""
    api, version = ApiKey(header.api_key), header.api_version
    packing = Packing(is_flexible=is_flexible(api, version))
    own: tuple[ErrorCode, str | None] = (ErrorCode.NONE, None) if is_allowed else _FORBIDDEN
    pieces = [encode_response_header(header), _UNTHROTTLED, packing.array(len(resources))]
    for resource in resources:
        error, message = own if resource.is_node(node) else (ErrorCode.INVALID_REQUEST, _ELSEWHERE)
        configs = shown if error is ErrorCode.NONE and resource.kind == _BROKER else {}
        shown = {} if configs else shown  # once: a request may list this node very often
        pieces += (
            _ERROR.pack(error),
            packing.nullable_string(message),
            resource.kind.to_bytes(1, "big", signed=True),
            packing.string(resource.name),
            _described(packing, version, configs, resource.keys) if api is ApiKey.DESCRIBE_CONFIGS else b"",
            packing.no_tags,
        )
    return framed(*pieces, packing.no_tags)


def _described(
    packing: Packing, version: int, configs: Mapping[str, BrokerConfig], keys: tuple[str, ...] | None
) -> bytes:
    """Read-only settings, without the fallback values behind them."""
    wanted = list(configs) if keys is None else [key for key in dict.fromkeys(keys) if key in configs]
    pieces = [packing.array(len(wanted))]
    for key in wanted:
        config = configs[key]
        source = config.source.to_bytes(1) if version >= 1 else _TRUTH[config.source is ConfigSource.DEFAULT]
        pieces += (
            packing.string(key),
            packing.nullable_string(config.value),
            _TRUTH[True],
            source,
            _TRUTH[config.is_sensitive],
            packing.array(0) if version >= 1 else b"",
            _UNKNOWN_KIND + packing.nullable_string(None) if version >= 3 else b"",
            packing.no_tags,
        )
    return b"".join(pieces)

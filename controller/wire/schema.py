"""Which kio value represents this message in this version?

kio has a module a message and version. Builders here name fields by the newest version; those missing in an older
version are left out.
"""

from __future__ import annotations

import datetime
import io
from binascii import a2b_base64
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any, Protocol
from uuid import UUID

from kio.serial import entity_writer

from controller.core.messages.errors import ErrorCode
from controller.wire.apis import ApiKey
from zk_layout.ids import TopicId

UNTHROTTLED = datetime.timedelta(0)


class Outcome(Protocol):
    """A reply, or a part of one."""

    @property
    def error(self) -> ErrorCode: ...

    @property
    def message(self) -> str | None: ...


class MessageSchema:
    """One message in one version.

    Shape:
        `kind` is "request" or "response".
    """

    def __init__(self, api_key: ApiKey, version: int, kind: str) -> None:
        self._module = import_module(f"kio.schema.{api_key.name.lower()}.v{version}.{kind}")

    def make(self, entity_name: str, /, **values: object) -> Any:
        """One entity of the message, without the fields this version lacks."""
        entity, known = self._entity(entity_name)
        values = {"throttle_time": UNTHROTTLED} | values
        return entity(**{field: value for field, value in values.items() if field in known})

    def outcome(self, entity_name: str, of: Outcome, /, **values: object) -> Any:
        """One entity that says how a request or a part of it went."""
        return self.make(entity_name, error_code=of.error, error_message=of.message, **values)

    @cache  # noqa: B019 - schemas live as long as the process
    def _entity(self, name: str) -> tuple[Any, frozenset[str]]:
        entity = getattr(self._module, name)
        return entity, frozenset(field.name for field in fields(entity))


@cache
def request_schema(api_key: ApiKey, version: int) -> MessageSchema:
    """The request of this key and version."""
    return MessageSchema(api_key, version, "request")


@cache
def response_schema(api_key: ApiKey, version: int) -> MessageSchema:
    """The response of this key and version."""
    return MessageSchema(api_key, version, "response")


def encode_entity(entity: Any) -> bytes:
    """The bytes of a whole message without its header."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def topic_id_bytes(topic_id: TopicId | None) -> bytes:
    """Sixteen bytes; an unknown id is all zeroes.

    >>> topic_id_bytes(TopicId("AAECAwQFBgcICQoLDA0ODw")) == bytes(range(16))
    True

    Raises:
        ValueError: not a topic id as Kafka spells it.
    """
    if topic_id is None:
        return bytes(16)
    try:
        raw = a2b_base64(topic_id.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise ValueError(f"{topic_id!r} is not a topic id; expected 22 characters of URL-safe base64")
    return raw


def topic_uuid(topic_id: TopicId | None) -> UUID | None:
    """A topic id in kio's form."""
    return None if topic_id is None else UUID(bytes=topic_id_bytes(topic_id))

"""What is a broker asked about its own configuration, and which bytes answer it?

The opposite of `controller.wire.broker_configs`, for simulated brokers and tests.

Source: Kafka's DescribeConfigsRequest and DescribeConfigsResponse.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import BrokerConfig
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader, encode_response_header, framed
from controller.wire.requests import decode_header, reading
from controller.wire.schema import encode_entity, response_schema


class Question:
    """DescribeConfigs v1 for one resource; no keys ask for all."""

    def __init__(self, frame: bytes) -> None:
        """Decodes it.

        Raises:
            MalformedRequest: it is cut off, continues after its end, or names more than one resource.
        """
        self.header = decode_header(frame)
        keys: list[str] | None = None
        with reading(self.header, frame) as cursor:
            (_,) = cursor.array("resources", 7)
            self.resource_type, self.resource_name = cursor.int8("resource_type"), cursor.string("resource_name")
            entries = cursor.nullable_array("configuration_keys", 2)
            if entries is not None:
                keys = [cursor.string("key") for _ in entries]
            cursor.boolean("include_synonyms")
            cursor.finish()
        self._keys = keys

    def answer(self, configs: Mapping[str, BrokerConfig]) -> bytes:
        """The requested settings, as far as they exist."""
        keys = configs if self._keys is None else [key for key in self._keys if key in configs]
        return self._framed(ErrorCode.NONE, {key: configs[key] for key in keys})

    def refuse(self, error: ErrorCode) -> bytes:
        """No settings, but an error."""
        return self._framed(error, {})

    def _framed(self, error: ErrorCode, configs: Mapping[str, BrokerConfig]) -> bytes:
        header: RequestHeader = self.header
        schema = response_schema(ApiKey.DESCRIBE_CONFIGS, header.api_version)
        described = tuple(
            schema.make(
                "DescribeConfigsResourceResult",
                name=name,
                value=config.value,
                read_only=True,
                config_source=config.source,
                is_sensitive=False,
                synonyms=(),
            )
            for name, config in configs.items()
        )
        result = schema.make(
            "DescribeConfigsResult",
            error_code=error,
            error_message=None,
            resource_type=self.resource_type,
            resource_name=self.resource_name,
            configs=described,
        )
        entity = schema.make("DescribeConfigsResponse", results=(result,))
        return framed(encode_response_header(header), encode_entity(entity))

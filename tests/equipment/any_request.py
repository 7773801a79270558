"""What does one server of a cluster answer to any request?"""

from __future__ import annotations

from controller.core.messages.replies import Reply
from controller.core.messages.requests import Request
from controller.lab.asking import ANSWER_WITHIN_S, CLIENT_ID, METADATA_VERSION, ask_raw
from controller.wire.api_versions import ApiVersionsReply
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader
from controller.wire.requests import ApiVersionsRequest
from tests.equipment.client_side import api_key_of, decode_reply, encode_request


def ask(
    address: str,
    request: Request | ApiVersionsRequest,
    *,
    version: int | None = None,
    timeout_s: float = ANSWER_WITHIN_S,
) -> Reply | ApiVersionsReply:
    """Send one request over a separate connection, without an event loop.

    Raises:
        Broken: there was no answer.
        Malformed: it does not answer the request.
    """
    key = api_key_of(request)
    if version is None:
        version = METADATA_VERSION if key is ApiKey.METADATA else 0
    header = RequestHeader(key, version, 1, CLIENT_ID, reads_additions=True)
    (answer,) = ask_raw(address, encode_request(header, request), timeout_s=timeout_s)
    return decode_reply(header, answer)

"""What does one server of the cluster answer when it is asked directly?"""

from __future__ import annotations

import socket

from controller.core.replies import ClusterDescription, Reply
from controller.core.requests import DescribeCluster, Request
from controller.wire.client_side import ApiVersionsReply, api_key_of, decode_reply, encode_request
from controller.wire.frames import FrameBuffer, RequestHeader
from controller.wire.requests import ApiVersionsRequest
from controller.wire.versions import ApiKey

_LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
# Every broker from 2.4 on answers these.
_VERSIONS = {ApiKey.METADATA: 7, ApiKey.API_VERSIONS: 0}


def ask(
    address: str, request: Request | ApiVersionsRequest, *, version: int | None = None, timeout_s: float = 10.0
) -> Reply | ApiVersionsReply:
    """Ask one question on a connection of its own.

    Raises:
        OSError: nobody is there, or the connection broke.
    """
    api_key = api_key_of(request)
    header = RequestHeader(api_key, _VERSIONS.get(api_key, 0) if version is None else version, 1, "demo")
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(encode_request(header, request))
        frames = FrameBuffer(max_bytes=_LARGEST_ANSWER_BYTES)
        while data := connection.recv(_READ_BYTES):
            for frame in frames.feed(data):
                return decode_reply(header, frame)
    raise ConnectionError(f"{address} closed the connection")


def controller_named_by(address: str) -> int | None:
    """The controller that this server names to clients; none if it knows none or does not answer."""
    try:
        answer = ask(address, DescribeCluster(topics=()))
    except OSError:
        return None
    assert isinstance(answer, ClusterDescription)
    return answer.controller if answer.controller >= 0 else None

"""Are these the bytes of logins? kio knows them, too."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.sasl_authenticate.v0 import request as a0r
from kio.schema.sasl_authenticate.v0 import response as a0
from kio.schema.sasl_authenticate.v1 import request as a1r
from kio.schema.sasl_authenticate.v1 import response as a1
from kio.schema.sasl_authenticate.v2 import request as a2r
from kio.schema.sasl_authenticate.v2 import response as a2
from kio.schema.sasl_handshake.v1 import request as h1r
from kio.schema.sasl_handshake.v1 import response as h1
from kio.serial import entity_reader

from controller.core.messages.errors import ErrorCode
from controller.wire import sasl
from controller.wire.apis import ApiKey
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader, encode_request_header, encode_response_header
from controller.wire.requests import MalformedRequest

RESPONSES = {0: a0.SaslAuthenticateResponse, 1: a1.SaslAuthenticateResponse, 2: a2.SaslAuthenticateResponse}
REQUESTS = {0: a0r.SaslAuthenticateRequest, 1: a1r.SaslAuthenticateRequest, 2: a2r.SaslAuthenticateRequest}
TOKEN = b"\0ann\0" + b"s" * 300


def header(api: ApiKey, version: int) -> RequestHeader:
    return RequestHeader(api, version, 7, "us")


def read(kind: object, body: bytes) -> object:
    found, size = entity_reader(kind)(body, 0)
    assert size == len(body)
    return found


@pytest.mark.parametrize("version", [0, 1])
def test_handshakes(version: int) -> None:
    head = header(ApiKey.SASL_HANDSHAKE, version)
    request = sasl.encode_handshake(head, "PLAIN")[4:]
    answer = sasl.encode_handshake_answer(head, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN", "GSSAPI"))[4:]

    assert sasl.decode_handshake(head, request) == "PLAIN"
    assert read(h1r.SaslHandshakeRequest, request[len(encode_request_header(head)) :]) == h1r.SaslHandshakeRequest(
        mechanism="PLAIN"
    )
    assert sasl.decode_handshake_answer(version, answer) == sasl.HandshakeResponse(33, ("PLAIN", "GSSAPI"))
    found = read(h1.SaslHandshakeResponse, answer[4:])
    assert isinstance(found, h1.SaslHandshakeResponse)
    assert (found.error_code, found.mechanisms) == (33, ("PLAIN", "GSSAPI"))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_tokens(version: int) -> None:
    head = header(ApiKey.SASL_AUTHENTICATE, version)
    request = sasl.encode_authenticate(head, TOKEN)[4:]
    answer = sasl.encode_authenticate_answer(head, ErrorCode.SASL_AUTHENTICATION_FAILED, "no", b"bytes", 5_000)[4:]

    assert sasl.decode_authenticate(head, request) == TOKEN
    asked = read(REQUESTS[version], request[len(encode_request_header(head)) :])
    assert getattr(asked, "auth_bytes", None) == TOKEN
    lifetime = 5_000 if version else 0
    assert sasl.decode_authenticate_answer(version, answer) == sasl.AuthenticateResponse(58, "no", b"bytes", lifetime)
    found = read(RESPONSES[version], answer[len(encode_response_header(head)) :])
    assert (getattr(found, "error_code", None), getattr(found, "error_message", None)) == (58, "no")
    assert getattr(found, "auth_bytes", None) == b"bytes"


@given(raw=st.binary(max_size=40), version=st.sampled_from([0, 1, 2]))
def test_odd_bytes_are_malformed_or_read(raw: bytes, version: int) -> None:
    head = header(ApiKey.SASL_AUTHENTICATE, version)
    for decode, api in ((sasl.decode_authenticate, head), (sasl.decode_handshake, header(ApiKey.SASL_HANDSHAKE, 1))):
        with suppress(MalformedRequest):
            decode(api, encode_request_header(api) + raw)
    for read_answer in (sasl.decode_authenticate_answer, sasl.decode_handshake_answer):
        with suppress(Malformed):
            read_answer(version if read_answer is sasl.decode_authenticate_answer else 1, bytes(4) + raw)

"""A token endpoint or key set on this host, for tests of those who ask it."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt


def signed(expires_s: float, **claims: Any) -> str:
    """A token as an identity provider makes it."""
    return jwt.encode({"sub": "controller", "exp": expires_s, **claims}, "k" * 32, algorithm="HS256")


class Provider:
    """Its answers, and the requests it got: the headers and the body of each."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []
        self.asked: list[tuple[dict[str, str], str]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_asked = threading.Event()
        self.url = ""

    def gives(self, token: str) -> None:
        """Give this token from now on, at once."""
        self.answers = [(200, json.dumps({"access_token": token, "token_type": "Bearer"}))]

    def answer(self) -> tuple[int, str]:
        """The next answer; the last one for ever."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(identity: Path | None = None) -> Iterator[Provider]:
    """A provider that listens, with TLS if it has an identity."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            provider.asked.append((dict(self.headers.items()), body))
            provider.is_asked.set()
            provider.may_answer.wait(10)
            status, text = provider.answer()
            with contextlib.suppress(ConnectionError):  # the client has gone
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", text)
                self.end_headers()
                self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    provider.url = f"http{'s' if identity else ''}://127.0.0.1:{server.server_address[1]}/token"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield provider
    finally:
        provider.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()

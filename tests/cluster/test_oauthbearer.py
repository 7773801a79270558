"""We lead brokers with OAUTHBEARER as a native controller does, with tokens of an identity provider."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from controller.security.jaas import OAUTHBEARER_LOGIN, parse_jaas
from controller.security.tokens.token_sources import HANDLER, URL
from controller.security.tokens.unsigned_tokens import unsigned_tokens
from controller.settings.security import Secret
from tests.cluster.replica import wait_until
from tests.cluster.secured import Client, by_token, replica, running, with_token
from tests.cluster.secured_walk import Walk
from tests.unit.security.identity_provider import Provider, serving

pytestmark = pytest.mark.thorough
SECRET = "cl1ent-s3cret"
LASTS_S = 10


def gives_tokens(provider: Provider, has_ended: threading.Event) -> None:
    """Serve tokens that are valid for a few seconds; brokers accept unsigned ones in this test."""
    text = f'{OAUTHBEARER_LOGIN} required unsecuredLoginStringClaim_sub="controller" unsecuredLoginLifetimeSeconds='
    make = unsigned_tokens(parse_jaas(Secret(f'{text}"{LASTS_S}";')), lambda: round(time.time() * 1000))
    while True:
        provider.gives(make().text.reveal())
        if has_ended.wait(1):
            return


@pytest.mark.timeout(400)
def test_brokers_with_tokens_are_led(tmp_path: Path) -> None:
    brokers = {**by_token("kafka"), "connections.max.reauth.ms": 4000}
    ours = {
        **by_token("controller"),
        URL: "set below",
        f"listener.name.inside.oauthbearer.{HANDLER}": (
            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
        ),
        "listener.name.inside.oauthbearer.sasl.jaas.config": (
            f'{OAUTHBEARER_LOGIN} required clientId="controller" clientSecret="{SECRET}";'
        ),
    }
    has_ended = threading.Event()
    with serving() as provider:
        ours[URL] = provider.url
        giving = threading.Thread(target=gives_tokens, args=(provider, has_ended))
        giving.start()
        try:
            with running("3.9.1", brokers) as cluster, replica(cluster, tmp_path, ours) as leader:
                leader.await_phase("active", 60)
                wait_until(lambda: len(provider.asked) > 2, "tokens were renewed")
                bob = Client(cluster, tmp_path, "bob-lists", with_token("bob"))
                to = ["--bootstrap-server", f"localhost:{leader.port}", "--command-config", str(bob.file), "--list"]
                command = [sys.executable, "-m", "controller", "reassign", *to]
                ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                assert "luster authorization failed" in ran.stdout + ran.stderr  # Bob is known, but lacks the right

                Walk(cluster, leader, tmp_path, with_token).run()
                assert SECRET not in leader.process.log_file.read_text(errors="replace")
                assert [line for line in leader.complaints() if line["level"] == "error"] == []
        finally:
            has_ended.set()
            giving.join()

"""The page about security names every property, and the examples can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.settings import load
from controller.settings.elsewhere import REFUSED
from controller.settings.securing_keys import SECURING
from controller.settings.zookeeper_table import ZOOKEEPER

ROOT = Path(__file__).parents[3]


def test_every_property_that_counts_is_on_the_page() -> None:
    page = (ROOT / "docs/security.md").read_text(encoding="utf-8")

    towards_zookeeper = [s.key for s in ZOOKEEPER if s.key.startswith(("zookeeper.s", "zookeeper.digest"))]
    keys = [*SECURING, *towards_zookeeper, *(key for key in REFUSED if key.startswith("zookeeper.ssl"))]
    assert [key for key in keys if f"`{key}`" not in page] == []


@pytest.mark.parametrize(
    ("name", "listener", "protocol", "mechanism"),
    [
        ("sasl-ssl-scram", "INTERNAL", "SASL_SSL", "SCRAM-SHA-512"),
        ("mutual-tls", "SSL", "SSL", ""),
        ("secured-zookeeper", "PLAINTEXT", "PLAINTEXT", ""),
        ("kerberos", "INTERNAL", "SASL_SSL", "GSSAPI"),
        ("oauthbearer", "INTERNAL", "SASL_SSL", "OAUTHBEARER"),
    ],
)
def test_the_examples_say_what_they_promise(name: str, listener: str, protocol: str, mechanism: str) -> None:
    found = load(ROOT / f"deploy/{name}.properties", (), {})

    assert found.listening.inter_broker == listener
    assert found.listening.security[listener].protocol == protocol
    assert found.listening.towards_brokers[listener].mechanism == mechanism
    assert found.ignored == ()
    assert found.zookeeper.security.sets_acl is (name == "secured-zookeeper")

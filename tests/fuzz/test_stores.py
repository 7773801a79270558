"""Is every store and web-config loaded, or refused by the one error for that, and is another outcome noticed?"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import server_context
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings
from tests.fuzz import stores

STORES = 40


@pytest.mark.parametrize("seed", range(3))
def test_a_mutated_store_or_web_config_is_loaded_or_refused_and_nothing_else(seed: int) -> None:
    tried = stores.try_stores(seed, STORES)

    assert min(tried.loaded, tried.refused) > STORES / 20, "half of it is worth nothing"


@pytest.mark.parametrize("name", stores.sound_stores())
def test_what_is_not_mutated_is_loaded_or_weak(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(stores.sound_stores()[name])
    if "trusted" in name:
        return
    kind = StoreType.PEM if name.endswith("pem") else StoreType.JKS
    password = Secret(stores.PASSWORD)
    settings = TlsSettings(KeyStore(kind, str(path), password, password))
    if name.startswith(("short", "sha1")):
        with pytest.raises(UnusableStore, match=r"ssl\.keystore\.location=.*OpenSSL refuses"):
            server_context(settings)
    else:
        server_context(settings)


def test_an_error_that_nobody_catches_is_told_with_what_caused_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def identify(*_: object) -> None:
        raise SystemError("of a library")

    monkeypatch.setattr(stores, "server_context", identify)

    result = CliRunner().invoke(stores.command, ["--stores", "200"])

    assert isinstance(result.exception, stores.Broken)
    assert str(result.exception).startswith("SystemError: of a library; by store = b")

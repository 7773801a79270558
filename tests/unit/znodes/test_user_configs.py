"""Under which path are a user's settings, for any name?"""

from __future__ import annotations

import pytest

from zk_layout import catalog
from zk_layout.znodes.configs import ClientConfigAddress, UserClientConfigAddress, UserConfigAddress, sanitized


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("ann", "ann"),
        ("a.b-c_d", "a.b-c_d"),
        ("CN=ann, O=ours", "CN%3Dann%2C%20O%3Dours"),
        ("<default>", "%3Cdefault%3E"),
        ("*~+/", "%2A%7E%2B%2F"),
        ("über", "%C3%BCber"),
    ],
)
def test_a_name_is_spelt_as_kafka_spells_it(name: str, spelt: str) -> None:
    assert sanitized(name) == spelt
    assert catalog.address_of(f"/config/users/{spelt}") == UserConfigAddress(spelt)


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/config/users/<default>", UserConfigAddress("<default>")),
        ("/config/users/<default>/clients/<default>", UserClientConfigAddress("<default>", "<default>")),
        ("/config/users/ann/clients/%2F", UserClientConfigAddress("ann", "%2F")),
        ("/config/clients/a.b", ClientConfigAddress("a.b")),
        ("/config/clients/<default>", ClientConfigAddress("<default>")),
    ],
)
def test_who_has_no_settings_of_its_own_has_those_of_the_default(path: str, address: catalog.Address) -> None:
    assert catalog.address_of(path) == address
    assert address.path == path


@pytest.mark.parametrize(
    "path",
    [
        *("/config/users/.", "/config/users/..", "/config/users/<others>", "/config/users/a/b", "/config/clients/<"),
        *("/config/users/../clients/a", "/config/users/a/clients", "/config/users/a/clients/b/c"),
    ],
)
def test_other_paths_are_no_users(path: str) -> None:
    assert catalog.address_of(path) is None

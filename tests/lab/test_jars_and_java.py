"""Are jars, Java and ports found, and is what is missing said in one line?"""

import concurrent.futures
import socket
import ssl
import time
from pathlib import Path

import pytest

from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.jars import IVY_SETTINGS_VARIABLE, kafka_class_path, zookeeper_class_path
from controller.lab.java import find_java
from controller.lab.ports import free_ports
from controller.lab.trust import encode_trust_store


def test_zookeepers_jars_come_with_pyspark() -> None:
    names = [jar.name for jar in zookeeper_class_path()]

    assert any(name.startswith("zookeeper-3.") for name in names)


def test_known_jars_are_found_again_before_a_jvm_could_have_looked_for_them() -> None:
    try:
        first = kafka_class_path("3.9.1")
    except (JarsUnavailable, JavaUnavailable) as error:
        pytest.skip(str(error))
    started = time.monotonic()

    assert kafka_class_path("3.9.1") == first
    assert time.monotonic() - started < 0.5


def test_a_version_that_does_not_exist_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "settings.xml"
    nowhere.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">'
        f'<artifact pattern="{tmp_path}/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(nowhere))

    with pytest.raises(JarsUnavailable, match=r"Kafka 3\.9\.99 are not available: .*not found"):
        kafka_class_path("3.9.99", cache_dir=tmp_path / "cache")

    assert not list((tmp_path / "cache").glob("*.json"))


@pytest.mark.parametrize("version", ["3.9", "latest", "3.9.1; rm"])
def test_what_is_no_version_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailable, match="a version has three numbers"):
        kafka_class_path(version, cache_dir=tmp_path)


@pytest.fixture
def _tiny_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    for name in ("kafka_2.13", "slf4j-reload4j"):
        (repository / f"{name}.jar").write_bytes(b"a jar")
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">'
        f'<artifact pattern="{repository}/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(settings))


@pytest.mark.usefixtures("_tiny_repository")
def test_a_jar_that_was_cut_short_is_not_taken(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = kafka_class_path("2.4.1", cache_dir=cache)
    first[0].write_bytes(b"a j")

    assert kafka_class_path("2.4.1", cache_dir=cache) == first
    assert first[0].read_bytes() == b"a jar"


@pytest.mark.usefixtures("_tiny_repository")
def test_of_two_that_need_the_same_jars_one_downloads_and_the_other_waits(tmp_path: Path) -> None:
    said: list[str] = []

    def ask(_: int) -> tuple[Path, ...]:
        return kafka_class_path("2.4.1", cache_dir=tmp_path / "cache", progress=said.append)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, range(2))

    assert first == second
    assert said.count("downloading Kafka 2.4.1 (once)") == 1


def test_no_java_is_one_error_that_lists_what_was_found() -> None:
    with pytest.raises(JavaUnavailable, match=r"Java 99 or newer is needed, found .*: install one"):
        find_java(oldest=99)


def test_ports_are_free_and_nobody_gets_one_twice() -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        handed_out = [port for ports in pool.map(free_ports, [5] * 8) for port in ports]

    assert len(set(handed_out)) == 40
    for port in handed_out:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def test_a_trust_store_holds_every_certificate_it_was_given() -> None:
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)[:3] or [b"first", b"second"]

    store = encode_trust_store(certificates)

    assert store.startswith(bytes.fromhex("feedfeed00000002"))
    assert all(certificate in store for certificate in certificates)

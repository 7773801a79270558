"""Where values come from, and which one counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.settings import BadSettings, environment_name, load
from controller.settings.table import SETTINGS
from tests.unit.settings.given import LEAST, file, settings

LEAST_TEXT = "".join(f"{key}={value}\n" for key, value in LEAST.items())


def test_the_environment_overrides_the_file_and_the_command_line_both(tmp_path: Path) -> None:
    path = file(tmp_path, LEAST_TEXT + "log.level=error\nlog.format=json\nhttp.port=1\n")
    environment = {"KAFKA_ZK_CONTROLLER_LOG_FORMAT": "text", "KAFKA_ZK_CONTROLLER_HTTP_PORT": "2"}

    found = load(path, ["http.port=3"], environment)

    assert (found.logs.level, found.logs.format, found.http.port) == ("error", "text", 3)


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = file(tmp_path, "! note\nbroker.rack : caf\xe9 \\\n   \\u00fc\nlog.level warning\nhttp.port=1\nhttp.port=2\n")

    found = load(path, [f"{key}={value}" for key, value in LEAST.items()], {})

    assert (found.claim.registration.rack, found.logs.level, found.http.port) == ("café ü", "warning", 2)


def test_a_problem_names_the_line_on_which_its_key_begins(tmp_path: Path) -> None:
    path = file(tmp_path, LEAST_TEXT + "# a comment\n\nbroker.rack=a\\\n  b\nhttp.port=many\n")

    with pytest.raises(BadSettings) as caught:
        load(path, [], {})

    assert caught.value.problems == (f"{path}:7: http.port = many: expected a whole number from 0 to 65535",)


def test_every_problem_of_all_sources_is_shown_at_once(tmp_path: Path) -> None:
    path = file(tmp_path, "broker.id=-1\nlog.level=loud\n")

    with pytest.raises(BadSettings) as caught:
        load(path, ["http.port"], {"KAFKA_ZK_CONTROLLER_LOG_FORMT": "text"})

    assert caught.value.problems == (
        "environment variable KAFKA_ZK_CONTROLLER_LOG_FORMT: there is no such setting; "
        "did you mean KAFKA_ZK_CONTROLLER_LOG_FORMAT?",
        "--set http.port: expected key=value, like --set broker.id=901",
        "zookeeper.connect is missing: ZooKeeper's servers, and the chroot if the brokers use one. "
        "The same as on the brokers.",
        f"{path}:1: broker.id = -1: expected a whole number from 0 to 2147483647",
        f"{path}:2: log.level = loud: expected one of debug, info, warning, error",
    )


def test_a_file_that_is_not_there_is_one_problem_among_others(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"none\.properties: cannot be read: No such file"):
        load(tmp_path / "none.properties", [], {})


def test_variables_that_kubernetes_sets_for_a_service_of_our_name_are_not_settings() -> None:
    environment = {
        "KAFKA_ZK_CONTROLLER_SERVICE_HOST": "10.0.0.1",
        "KAFKA_ZK_CONTROLLER_SERVICE_PORT_KAFKA": "9095",
        "KAFKA_ZK_CONTROLLER_PORT": "tcp://10.0.0.1:9095",
        "KAFKA_ZK_CONTROLLER_PORT_9095_TCP_ADDR": "10.0.0.1",
        "KAFKA_ZK_CONTROLLER_IVY_SETTINGS": "/etc/ivy.xml",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
    }

    found = load(None, [f"{key}={value}" for key, value in LEAST.items()], environment)

    assert found == settings()


def test_no_two_settings_share_an_environment_variable() -> None:
    assert len({environment_name(setting.key) for setting in SETTINGS}) == len(SETTINGS)


def test_an_empty_value_is_as_good_as_none(tmp_path: Path) -> None:
    path = file(tmp_path, LEAST_TEXT + "broker.rack=\nhttp.port=\n")

    found = load(path, [], {})

    assert (found.claim.registration.rack, found.http.port) == (None, 9640)


def test_a_required_value_may_not_be_empty(tmp_path: Path) -> None:
    path = file(tmp_path, LEAST_TEXT + "zookeeper.connect=\n")

    with pytest.raises(BadSettings, match=r"^zookeeper.connect is missing"):
        load(path, [], {})

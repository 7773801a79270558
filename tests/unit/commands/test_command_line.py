"""What the command line answers, and with which exit code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner, Result

from controller.__main__ import main
from controller.commands.common import MISUSED, OK, UNREACHABLE
from controller.settings.table import SETTINGS
from controller.zk import bridge
from metrics.measures import MEASURES

DEPLOY = Path(__file__).parents[3] / "deploy"
COMMANDS = main.list_commands(Context(main))
DOING = [name for name in COMMANDS if name not in ("metrics", "settings", "replay")]
"""Commands that do more than show what is there."""
LEAST = ("--set=zookeeper.connect=zk:2181", "--set=broker.id=900", "--set=inter.broker.protocol.version=3.9")


def ask(*arguments: str, **environment: str) -> Result:
    """Run one command in this process."""
    return CliRunner(env=environment).invoke(main, arguments)


def test_checking_a_configuration_shows_what_is_in_force_and_starts_nothing() -> None:
    answer = ask("run", *LEAST, "--check-config", "--output=json", KAFKA_ZK_CONTROLLER_LOG_LEVEL="debug")

    assert answer.exit_code == OK
    shown = json.loads(answer.stdout)
    assert shown["settings"]["log.level"] == "debug"
    assert shown["settings"]["unclean.leader.election.enable"] == "false"
    assert set(shown["settings"]) == {setting.key for setting in SETTINGS}


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_secret_in_force_is_hidden_and_seen_to_be_there(output: str) -> None:
    module = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="k" password="s3cret";'
    answer = ask("run", *LEAST, f"--set=zookeeper.sasl.jaas.config={module}", "--check-config", f"--output={output}")

    assert answer.exit_code == OK
    (line,) = [line for line in answer.stdout.splitlines() if "zookeeper.sasl.jaas.config" in line]
    assert "[hidden]" in line
    assert "s3cret" not in answer.output


@pytest.mark.parametrize(
    "found", ["zookeeper.sasl.jaas.config=a.B required;", "zookeeper.ssl.keystore.location=/no.p12"]
)
def test_what_cannot_be_used_towards_zookeeper_is_found_by_checking(found: str) -> None:
    answer = ask("run", *LEAST, "--set=zookeeper.ssl.client.enable=true", f"--set={found}", "--check-config")

    assert answer.exit_code == MISUSED
    assert answer.stderr.startswith(f"error: {found.partition('=')[0]}")


def test_a_bad_configuration_is_refused_with_all_that_is_wrong_before_anything_starts() -> None:
    answer = ask("run", "--set=broker.id=x")

    assert answer.exit_code == MISUSED
    assert answer.stdout == ""
    assert answer.stderr.splitlines()[0].startswith("error: zookeeper.connect is missing")
    assert answer.stderr.splitlines()[1] == (
        "error: --set: broker.id = x: expected a whole number from 0 to 2147483647"
    )


def test_what_is_wrong_can_be_read_by_a_program() -> None:
    answer = ask("run", *LEAST, "--set=http.port=x", "--check-config", "--output=json")

    assert answer.exit_code == MISUSED
    assert json.loads(answer.stdout) == {
        "problems": ["--set: http.port = x: expected a whole number from 0 to 65535"],
    }


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_check_of_a_cluster_whose_zookeeper_is_silent_says_so_and_has_its_own_exit_code(output: str) -> None:
    unreachable = ("--set=zookeeper.connect=127.0.0.1:1", "--set=zookeeper.connection.timeout.ms=100")

    answer = ask("run", *LEAST, *unreachable, "--check-cluster", f"--output={output}")

    reason = "no ZooKeeper server answers at 127.0.0.1:1"
    assert answer.exit_code == UNREACHABLE
    if output == "text":
        assert (answer.stdout, answer.stderr) == ("", f"error: {reason}; check zookeeper.connect\n")
    else:
        assert json.loads(answer.stdout) == {"may_lead": False, "findings": [], "unreachable": reason}


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("switchover", "--to=902"),
        ("release",),
        ("run", "--check-cluster", "--set=broker.id=900"),
    ],
)
def test_that_zookeeper_is_silent_is_said_long_before_the_time_out(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "SILENT_S", 0.01)
    config = tmp_path / "controller.properties"
    config.write_text("zookeeper.connect=127.0.0.1:1\nbroker.id=900\nzookeeper.connection.timeout.ms=200\n")

    answer = ask(*command, f"--config={config}")

    assert answer.exit_code == UNREACHABLE
    silent, error = answer.stderr.splitlines()
    assert silent == "no ZooKeeper server has answered at 127.0.0.1:1 for 0.01 s; still trying"
    assert "no ZooKeeper server answers at 127.0.0.1:1" in error


@pytest.mark.parametrize("connect", ["", "zk:99999", "zk:1:2", "zk:2181/a/", "zk:2181//a"])
@pytest.mark.parametrize("command", [("status",), ("switchover", "--to=902"), ("release",)])
def test_what_is_no_zookeeper_is_said_at_once(command: tuple[str, ...], connect: str) -> None:
    answer = ask(*command, f"--zookeeper={connect}")

    assert answer.exit_code == MISUSED
    assert answer.stderr.startswith("error: --zookeeper: ")


def test_every_mistake_in_a_file_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "controller.properties"
    config.write_text("zookeeper.connect=zk:1\nbroker.id=x\nhttp.port=y\n")

    answer = ask("status", f"--config={config}")

    assert answer.exit_code == MISUSED
    first, second = answer.stderr.splitlines()
    assert first.startswith(f"error: {config}:2: broker.id = x: ")
    assert second.startswith(f"error: {config}:3: http.port = y: ")


@pytest.mark.parametrize("version", ["2.3", "4.0", "three"])
def test_a_protocol_version_that_is_not_spoken_is_refused_like_any_other_value(version: str) -> None:
    answer = ask("run", *LEAST, f"--set=inter.broker.protocol.version={version}", "--check-config")

    assert answer.exit_code == MISUSED
    assert f"error: --set: inter.broker.protocol.version = {version}: " in answer.stderr


def test_a_configuration_file_that_does_not_exist_is_a_mistake_in_usage(tmp_path: Path) -> None:
    assert ask("run", f"--config={tmp_path / 'none'}").exit_code == MISUSED


def test_keys_without_effect_are_listed() -> None:
    answer = ask("run", *LEAST, "--set=log.dirs=a", "--check-config")

    assert "ignored, because a controller has no such settings: log.dirs" in answer.stdout


def test_the_example_configuration_is_good() -> None:
    answer = ask("run", f"--config={DEPLOY / 'controller.properties'}", "--check-config")

    assert answer.exit_code == OK, answer.output


def test_what_the_example_configuration_leaves_out_would_be_good_too(tmp_path: Path) -> None:
    (tmp_path / "web-config.yml").touch()
    text = (DEPLOY / "controller.properties").read_text().replace("/etc/kafka-zk-controller", str(tmp_path))
    offered = [line[1:] for line in text.splitlines() if line.startswith("#") and not line.startswith("# ")]
    whole = tmp_path / "controller.properties"
    whole.write_text(text + "\n".join(line for line in offered if not line.startswith("control.plane.")))

    answer = ask("run", f"--config={whole}", "--check-config")

    assert len(offered) >= 8
    assert answer.exit_code == OK, answer.output


def test_systemd_starts_what_there_is_and_does_not_repeat_a_bad_configuration() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys of systemd have capitals
    unit.read(DEPLOY / "kafka-zk-controller.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    here = [a.replace("/etc/kafka-zk-controller", str(DEPLOY)) for a in arguments]

    assert Path(program).name == "kafka-zk-controller"
    assert ask(*here, "--check-config").exit_code == OK
    assert int(unit["Service"]["RestartPreventExitStatus"]) == MISUSED
    assert unit["Service"]["LimitCORE"] == "0", "a core dump holds passwords, and the watchdog's SIGABRT makes one"


def test_every_setting_and_every_measure_is_listed() -> None:
    settings = json.loads(ask("settings", "--output=json").stdout)
    measured = json.loads(ask("metrics", "--output=json").stdout)

    assert [row["key"] for row in settings] == [setting.key for setting in SETTINGS]
    assert [row["name"] for row in measured] == [measure.shown_name for measure in MEASURES]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    answer = ask(command, "--help")

    assert answer.exit_code == OK
    assert f"kafka-zk-controller {command}" in answer.stdout


@pytest.mark.parametrize("command", DOING)
def test_every_command_that_does_something_says_what_its_exit_codes_mean(command: str) -> None:
    assert "Exit codes: 0 " in ask(command, "--help").stdout


def test_the_first_page_has_a_line_to_copy_for_each_command_that_does_something() -> None:
    page = ask("--help").stdout

    assert [name for name in DOING if f" kafka-zk-controller {name}" not in page] == []


def test_the_program_can_be_run_as_a_module() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "controller", "--version"], capture_output=True, text=True, timeout=60, check=True
    )

    assert answer.stdout.startswith("kafka-zk-controller, version ")


def test_a_configuration_is_checked_in_an_environment_that_is_otherwise_empty() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "controller", "run", *LEAST, "--check-config"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert answer.returncode == OK, answer.stderr


def test_the_replay_does_not_wait_for_the_daemon() -> None:
    script = """
import sys
from controller.__main__ import main
main(["replay", "--help"], standalone_mode=False)
print([name for name in ("aiohttp", "kazoo", "kio", "structlog", "pyarrow") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert run.stdout.splitlines()[-1] == "[]"


def test_the_daemon_does_without_the_libraries_of_other_commands() -> None:
    script = """
import sys
import controller.commands.run, controller.process.daemon
print([name for name in ("kafka", "pyarrow", "pyspark", "pytest") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["settings"],
        ["settings", "--output=markdown"],
        ["reassign", "--help"],
        ["run", *LEAST, "--set=listeners=PLAINTEXT://h:1", "--set=super.users=User:\u0436", "--check-config"],
        ["run", "--set=broker.id=\u2192"],
    ],
)
def test_what_a_terminal_cannot_show_is_written_in_other_characters(encoding: str, arguments: list[str]) -> None:
    answer = CliRunner(charset=encoding).invoke(main, arguments)

    answer.output_bytes.decode("ascii")
    assert answer.exit_code == (MISUSED if arguments[-1].endswith("\u2192") else OK)

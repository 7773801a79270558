"""Which options go together, and what is printed when they do not, before any connection."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import main
from controller.lab.ports import free_port
from controller.reassign.command import GROUPS, reassign
from controller.reassign.options import ACTIONS, Options
from controller.reassign.refusals import MISUSED, UNREACHABLE
from tests.unit.reassign.simulated import SimulatedCluster, at

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["reassign", *arguments])


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text('{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}')
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "Command must include exactly one action: --generate, --execute"),
        ((*NOWHERE, "--list", "--cancel-all"), "exactly one action"),
        ((*NOWHERE, "--list", "--progress"), "exactly one action"),
        (("--list",), "Please specify --bootstrap-server"),
        ((*NOWHERE, "--execute"), "--execute needs --reassignment-json-file"),
        ((*NOWHERE, "--generate"), "--generate needs --topics-to-move-json-file and --broker-list"),
        ((*NOWHERE, "--list", "--throttle", "0"), 'Option "--throttle" can\'t be used with action "--list"'),
        ((*NOWHERE, "--verify", "--reassignment-json-file", "PLAN", "--gentle"), "can't be used with"),
        ((*NOWHERE, "--cancel"), "--cancel-all stops everything"),
        ((*NOWHERE, "--cancel", "--topic", "a", "--gentle", "--force"), "contradict each other"),
        ((*NOWHERE, "--config", "PLAN", "--list"), "--config names the cluster, and so does --bootstrap-server"),
        (("--zookeeper", "z:1", "--config", "PLAN", "--list"), "give one of them"),
        (("--config", "PLAN", "--list"), "zookeeper.connect is missing"),
        (("--zookeeper", "z:1", "--list"), 'Option "--zookeeper" can\'t be used with action "--list"'),
        ((*NOWHERE, "--list", "--reason", "x"), 'Option "--reason" can\'t be used with action "--list"'),
        ((*NOWHERE, "--execute", "--reason", "a\nb"), "--reason has '\\n' at position 1; give one line"),
        ((*NOWHERE, "--execute", "--reason", "é" * 501), "--reason has 1002 bytes; give at most 1000"),
        ((*NOWHERE, "--list", "--give-up-after", "1h"), 'Option "--give-up-after" can\'t be used with action "--list"'),
        ((*NOWHERE, "--execute", "--give-up-after", "5"), "--give-up-after: '5' is no time; give one such as 90s, 30m"),
        ((*NOWHERE, "--execute", "--reason", " "), "--reason is empty; leave it out, or say why"),
        (
            ("--zookeeper", "z:1", "--execute", "--reassignment-json-file", "PLAN", "--additional"),
            'You must specify --bootstrap-server when using "[additional]"',
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], reason: str, plan: str) -> None:
    result = run(*(plan if a == "PLAN" else a for a in arguments))

    assert reason in result.stderr
    assert result.exit_code == MISUSED


def test_every_mistake_is_named_before_any_request(tmp_path: Path) -> None:
    topics, properties = tmp_path / "topics.json", tmp_path / "client.properties"
    topics.write_text('{"topics":[{"topic":1}]}')
    properties.write_text("request.timeout.ms=soon")

    options = run("--execute", "--gentle", "--force", "--list")
    several = run("--generate", "--throttle", "5", "--gentle", "--force")
    files = run(
        *(*NOWHERE, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,x"),
        *("--command-config", str(properties)),
    )

    assert (options.exit_code, several.exit_code, files.exit_code) == (MISUSED, MISUSED, MISUSED)
    assert several.stderr.splitlines() == [
        "Error: Please specify --bootstrap-server",
        "--generate needs --topics-to-move-json-file and --broker-list",
        'Option "--force" can\'t be used with action "--generate"',
        'Option "--gentle" can\'t be used with action "--generate"',
        'Option "--throttle" can\'t be used with action "--generate"',
        "--gentle and --force contradict each other",
    ]
    assert "topics.json, line 1, column 12: Expected `str`, got `int` - at `topics[0].topic`" in files.stderr
    assert '--broker-list "1,x" is not a list of broker ids' in files.stderr
    assert "request.timeout.ms=soon" in files.stderr


def test_values_that_cannot_be_are_named_together_with_everything_else(tmp_path: Path) -> None:
    plan = tmp_path / "moves.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"a","partition":"x","replicas":[1]}]}')

    result = run(
        *("--bootstrap-server", "kafka1:9092,kafka2:x", "--execute", "--reassignment-json-file", str(plan)),
        *("--throttle", "-5", "--timeout", "soon", "--output", "xml", "--gentle"),
    )

    assert result.exit_code == MISUSED
    assert result.stderr.splitlines() == [
        "Error: --throttle: -5 is not in the range x>=-1.",
        "--timeout: 'soon' is not a valid integer range.",
        "--output: 'xml' is not one of 'text', 'json'.",
        'Option "--gentle" can\'t be used with action "--execute"',
        "--bootstrap-server: 'kafka2:x' is not a server; expected host:port,host:port",
        "moves.json, line 1, column 28: Expected `int`, got `str` - at `partitions[0].partition`",
    ]


@pytest.mark.parametrize("server", ["", "kafka1", "kafka1:", ":9092", "kafka1:0", "kafka1:70000", "a:1,,b:1"])
def test_what_is_no_server_is_said_at_once(server: str) -> None:
    result = run("--bootstrap-server", server, "--list")

    assert result.exit_code == MISUSED
    assert "is not a server; expected host:port,host:port" in result.stderr


def test_a_file_that_is_not_there_is_a_mistake_among_others() -> None:
    result = run("--execute", "--reassignment-json-file", "nowhere.json", "--throttle", "x")

    assert result.exit_code == MISUSED
    assert result.stderr.splitlines() == [
        "Error: --reassignment-json-file: File 'nowhere.json' does not exist.",
        "--throttle: 'x' is not a valid integer range.",
        "Please specify --bootstrap-server",
    ]


@pytest.mark.parametrize("option", ["--bootstrap-server", "--zookeeper"])
def test_a_silent_address_is_reported_long_before_the_timeout(
    option: str, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.reassign.connecting.SILENT_S", 0.05)
    address = f"127.0.0.1:{free_port()}"

    result = run(option, address, "--verify", "--reassignment-json-file", plan, "--timeout", "500")

    assert result.exit_code == UNREACHABLE
    assert f"no broker has answered at {address} yet; trying for 0.5 s" in result.stderr


def test_a_file_of_moves_may_be_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster({"a-0": (1, 2)})
    monkeypatch.setattr("controller.reassign.command.connect", lambda *_: cluster)
    reading, writing = os.pipe()
    os.write(writing, b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2]}]}')
    os.close(writing)

    result = run(*NOWHERE, "--execute", "--reassignment-json-file", f"/dev/fd/{reading}")

    os.close(reading)
    assert (result.exit_code, result.stderr) == (0, "")
    assert cluster.moves.keys() == {at("a-0")}


def test_what_kafka_s_tool_takes_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plan: str) -> None:
    cluster = SimulatedCluster({"a-0": (1, 2)})
    monkeypatch.setattr("controller.reassign.command.connect", lambda *_: cluster)
    (tmp_path / "topics.json").write_text('{"topics":[{"topic":"a"}]}')

    generated = run(
        *("-bootstrap-server", "a:1", "-generate", f"-topics-to-move-json-file={tmp_path}/topics.json"),
        *("-broker-list", "1,2,"),
    )
    executed = run(
        *(*NOWHERE, "-execute", "--reassignment-json-file", plan, "--throttle", "-1"),
        *("--replica-alter-log-dirs-throttle", "-1"),
    )

    assert (generated.exit_code, executed.exit_code) == (0, 0)
    assert "Proposed partition reassignment configuration" in generated.stdout
    assert cluster.configs == {}
    assert "throttle limit" not in executed.stdout
    assert run("--version").stdout.startswith("kafka-zk-controller, version")
    assert run("-verion").exit_code == MISUSED


def test_a_cluster_that_is_not_there_is_said_with_its_address() -> None:
    address = f"127.0.0.1:{free_port()}"

    result = run("--bootstrap-server", address, "--list", "--timeout", "300", "--output", "json")

    assert result.exit_code == UNREACHABLE
    assert f"no broker answers at {address} within 0.3 s" in json.loads(result.stdout)["error"]


def test_why_brokers_hang_up_is_said_also_where_the_last_attempt_ran_out_of_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        address = f"{host}:{port}"

        def hang_up_once() -> None:
            server.accept()[0].close()  # from then on no answer comes

        hanging_up = threading.Thread(target=hang_up_once)
        hanging_up.start()

        result = run("--bootstrap-server", address, "--list", "--timeout", "1000", "--output", "json")
        hanging_up.join()

    error = json.loads(result.stdout)["error"]
    assert f"no broker answers at {address} within 1 s" in error
    assert "timed out" not in error


def test_a_zookeeper_that_is_not_there_is_said_after_the_warning(plan: str) -> None:
    address = f"127.0.0.1:{free_port()}"

    result = run("--zookeeper", address, "--verify", "--reassignment-json-file", plan, "--timeout", "300")

    assert result.exit_code == UNREACHABLE
    assert "Warning: --zookeeper is deprecated" in result.stderr
    assert f"no ZooKeeper answers at {address} within 0.3 s" in result.stderr


def test_the_help_shows_every_option_under_a_heading() -> None:
    shown = run("--help").stdout

    grouped = {name for _, names in GROUPS for name in names}
    assert grouped == set(Options.__struct_fields__)
    assert {p.name for p in reassign.params} == grouped | {"version"}
    for title, _ in GROUPS:
        assert f"{title}:" in shown
    assert set(ACTIONS) <= grouped

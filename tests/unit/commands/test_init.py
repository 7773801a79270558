"""`init` writes one file for its owner, overwrites nothing, and says what is to do."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import main
from controller.commands import init as command
from controller.commands.common import FAILED, MISUSED, OK, UNREACHABLE
from controller.first_settings.found import ClusterSeen
from controller.reassign.client_properties import ClientSettings
from controller.reassign.cluster import Node
from controller.reassign.refusals import Refused, Unreachable
from zk_layout.ids import BrokerId

SECRET = "horse-s3cr3t"
SECURED = f"""\
zookeeper.connect=zk:2181/kafka
listeners=SASL_PLAINTEXT://:9092
security.inter.broker.protocol=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="kafka" password="{SECRET}" user_kafka="{SECRET}";
"""


@pytest.fixture(autouse=True)
def _no_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper shows broker 1 and a replica."""
    monkeypatch.setattr(command, "look", lambda _: ClusterSeen(taken=frozenset({BrokerId(1), BrokerId(901)})))


@pytest.fixture
def _no_mask() -> Iterator[None]:
    """A user who lets others read new files."""
    before = os.umask(0)
    yield
    os.umask(before)


def ask(folder: Path, *arguments: str, text: str = SECURED) -> Result:
    """Make `controller.properties` in a folder."""
    file = folder / "server.properties"
    file.write_text(text)
    own = [f"--out={folder / 'controller.properties'}", "--host=controller-1"]
    return CliRunner().invoke(main, ["init", f"--server-properties={file}", *own, *arguments])


@pytest.mark.usefixtures("_no_mask")
def test_only_the_owner_can_read_the_file_and_no_secret_is_shown(tmp_path: Path) -> None:
    answer = ask(tmp_path)

    out = tmp_path / "controller.properties"
    assert answer.exit_code == OK, answer.output
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_text().count(SECRET) == 2
    assert SECRET not in answer.output
    assert answer.stdout.splitlines() == [
        f"{out}: replica 902 at controller-1; only the file's owner can read it",
        "until it has run, 902 counts as free: set up before that, another replica needs an --id",
        "it holds secrets: listener.name.sasl_plaintext.plain.sasl.jaas.config",
        f"next: kafka-zk-controller run --config {out} --check-cluster",
    ]


def test_a_program_reads_json(tmp_path: Path) -> None:
    answer = ask(tmp_path, "--output=json", "--id=950")

    found = json.loads(answer.stdout)
    assert (found["broker_id"], found["is_usable"], found["problems"]) == (950, True, [])
    assert SECRET not in answer.output


@pytest.mark.parametrize("kind", ["file", "dangling link", "folder"])
def test_nothing_is_overwritten(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "controller.properties"
    if kind == "file":
        out.write_text("mine")
    elif kind == "folder":
        out.mkdir()
    else:
        out.symlink_to(tmp_path / "elsewhere")

    answer = ask(tmp_path)

    assert answer.exit_code == FAILED
    assert "exists, and init overwrites nothing" in answer.stderr
    assert not (tmp_path / "elsewhere").exists()
    assert kind != "file" or out.read_text() == "mine"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    answer = ask(tmp_path, f"--out={tmp_path / 'none' / 'c.properties'}")

    assert answer.exit_code == FAILED
    assert "cannot be written: No such file or directory" in answer.stderr


def test_what_has_to_be_completed_is_said_with_its_line_and_no_secret(tmp_path: Path) -> None:
    text = SECURED.replace("sasl.mechanism.inter.broker.protocol=PLAIN", "sasl.mechanism.inter.broker.protocol=GSSAPI")

    answer = ask(tmp_path, text=text)

    assert answer.exit_code == FAILED
    assert (tmp_path / "controller.properties").exists()
    (problem,) = [line for line in answer.stdout.splitlines() if line.startswith("to do: ")]
    assert "sasl.mechanism.inter.broker.protocol = GSSAPI" in problem
    assert SECRET not in answer.output


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (("--id=901",), SECURED, "id 901 is taken; these are: 1, 901"),
        ((), "zookeeper.connect=zk:1\nreserved.broker.max.id=1", None),
        ((), "zookeeper.connect=zk:1\nreserved.broker.max.id=many", "reserved.broker.max.id=many, which is no number"),
        ((), "process.roles=broker", "KRaft"),
    ],
)
def test_an_id_that_is_not_free_or_a_file_of_no_broker_makes_no_file(
    arguments: tuple[str, ...], text: str, said: str | None, tmp_path: Path
) -> None:
    answer = ask(tmp_path, *arguments, text=text)

    if said is None:
        assert "\nbroker.id=0\n" in (tmp_path / "controller.properties").read_text()
        return
    assert answer.exit_code == FAILED
    assert said in answer.stderr
    assert not (tmp_path / "controller.properties").exists()


@pytest.mark.parametrize(
    "arguments", [(), ("--bootstrap-server=k:9092", "--server-properties={file}"), ("--command-config={file}",)]
)
def test_what_is_asked_must_be_clear(arguments: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    answer = CliRunner().invoke(main, ["init", *(each.format(file=file) for each in arguments)])

    assert answer.exit_code == MISUSED


class Cluster:
    """Broker 3 and our own leader, over Kafka's protocol."""

    refusal: Exception | None = None

    def __init__(self, _: str, __: ClientSettings, client_id: str) -> None:
        assert client_id == "kafka-zk-controller init"

    def nodes(self) -> dict[int, Node]:
        return {1: Node("c", 9095, is_controller=True), 3: Node("k", 9092)}

    def described(self, broker: int) -> dict[str, str | None]:
        if self.refusal is not None:
            raise self.refusal
        assert broker == 3
        return {
            "zookeeper.connect": "zk:2181",
            "listeners": "SSL://:9092",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.location": "/none.p12",
            "ssl.keystore.password": None,
            "password.encoder.secret": None,
        }

    def close(self) -> None: ...


def ask_broker(folder: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception | None = None) -> Result:
    """Make the file from what a broker answers."""
    monkeypatch.setattr(command, "KafkaCluster", Cluster)
    monkeypatch.setattr(Cluster, "refusal", refusal)
    return CliRunner().invoke(main, ["init", "--bootstrap-server=k:9092", f"--out={folder / 'c.properties'}"])


def test_what_a_broker_does_not_disclose_is_to_be_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask_broker(tmp_path, monkeypatch)

    assert answer.exit_code == FAILED
    assert "to do: ssl.keystore.password: fill it in; broker 3 does not disclose it" in answer.stdout
    assert "/none.p12" in answer.stdout
    assert "\nbroker.id=902\n" in (tmp_path / "c.properties").read_text()


@pytest.mark.parametrize(
    ("refusal", "code", "said"),
    [
        (Refused("broker 3: Cluster authorization failed."), FAILED, "or use --server-properties"),
        (Unreachable("no broker answers at k:9092"), UNREACHABLE, "no broker answers"),
    ],
)
def test_a_broker_that_does_not_say_makes_no_file(
    refusal: Exception, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ask_broker(tmp_path, monkeypatch, refusal)

    assert answer.exit_code == code
    assert said in answer.stderr
    assert not (tmp_path / "c.properties").exists()

"""`diagnose` collects what it can, says what it could not, and gives no secret away."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from controller.__main__ import main
from controller.commands import check_cluster
from controller.commands import diagnose as command
from controller.commands.common import FAILED, MISUSED, OK
from controller.diagnosis import collecting
from controller.diagnosis.znodes import COUNTED, NAMED, WHOLE, WITH_CHILDREN
from controller.preflight.findings import Check, Verdict, ok
from controller.zk.answers import Disconnected
from controller.zk.protocol import Node
from tests.unit.http.serving import LOADING, serving
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

SECRET, OTHER, KEPT = "horse-s3cr3t", "staple-s3cr3t", "battery-s3cr3t"
CONFIG = f"""\
zookeeper.connect=127.0.0.1:1/kafka
broker.id=901
listeners=SASL_PLAINTEXT://127.0.0.1:9095
security.inter.broker.protocol=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="kafka" password="{SECRET}" user_kafka="{OTHER}";
delegation.token.secret.key={SECRET}
zookeeper.digest.credentials=kafka:{OTHER}
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
"""
NODE = Node(f'{{"reason":"the password is {SECRET}"}}'.encode(), Stat(Zxid(1), Zxid(1), ZnodeVersion(0), SessionId(0)))


class Bridge:
    """Where every znode holds a secret, and every folder has a child of that name."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def get(self, _: str) -> tuple[Node, int]:
        return NODE, 1

    async def children(self, _: str) -> tuple[list[str], int]:
        return ["1", SECRET], 1


@pytest.fixture
def _seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper and the checks answer."""

    async def look(*_: Any, **__: Any) -> Verdict:
        return Verdict((ok(Check.CLUSTER, f"cluster {OTHER}"),))

    monkeypatch.setattr(command, "Bridge", Bridge)
    monkeypatch.setattr(check_cluster, "look", look)


def write(folder: Path) -> Path:
    """A configuration, with secrets in every place, and logs."""
    (folder / "kept.properties").write_text(f"users=User:{KEPT}\n")
    config = folder / "controller.properties"
    more = f"super.users=${{file:{folder / 'kept.properties'}:users}}\njournal.dir={folder}\n"
    config.write_text(
        f"{CONFIG}{more}log.authorizer.file={folder / 'authorizer.log'}\nlog.moves.file={folder / 'moves.log'}\n"
    )
    encoded = base64.b64encode(f"kafka:{SECRET}".encode()).decode()
    lines = [SECRET, json.dumps({"event": f"x {OTHER}"}), encoded, "password=another-s3cr3t", f"User:{KEPT}"]
    (folder / "authorizer.log").write_text("\n".join(lines))
    (folder / "moves.log").write_text("\n".join(lines))
    (folder / "replica.log").write_text(
        "a line of the log that says nothing in particular, and is long\n" * 50_000
        + "\n".join(lines)
        + "\nthe last line\n"
    )
    return config


def diagnose(config: Path, *arguments: str) -> Result:
    """Run it; the archive is beside the file."""
    own = [f"--config={config}", f"--out={config.parent / 'd.tar.gz'}"]
    return CliRunner().invoke(main, ["diagnose", *own, *arguments])


def content(archive: Path) -> dict[str, str]:
    """The files in an archive."""
    with tarfile.open(archive) as opened:
        found = {member.name.partition("/")[2]: opened.extractfile(member) for member in opened.getmembers()}
        return {name: file.read().decode() for name, file in found.items() if file is not None}


@pytest.mark.usefixtures("_seen")
def test_no_secret_is_in_the_bundle_wherever_it_was(tmp_path: Path) -> None:
    config = write(tmp_path)
    http = tmp_path / "client.yml"
    http.write_text(f"basic_auth: {{username: ann, password: {SECRET}-web}}\n")

    async def ask() -> Result:
        status = replace(LOADING, broker=901, reason=f"the login was {SECRET}-web", warnings=(OTHER,))
        async with serving(status) as served:
            more = (f"--url={served.url}", f"--http.config.file={http}", f"--log={tmp_path / 'replica.log'}")
            return await asyncio.to_thread(diagnose, config, *more)

    answer = asyncio.run(ask())

    assert answer.exit_code == OK, answer.output
    found = content(tmp_path / "d.tar.gz")
    assert set(found) == {
        *("README.txt", "host.json", "settings.json", "zookeeper.json", "brokers.json", "replicas.json", "znodes.json"),
        *("checks.json", "journal.json", "authorizer.log", "moves.log", "1-replica.log"),
        *(f"http/{page}.txt" for page in ("leader", "readyz", "livez", "metrics", "reassignments")),
    }
    everything = "\n".join([*found.values(), answer.output])
    assert [
        word
        for word in ("s3cr3t", "czNjcjN0", base64.b64encode(f"kafka:{SECRET}".encode()).decode())
        if word in everything
    ] == []
    assert found["http/readyz.txt"].startswith("503\n")
    assert found["1-replica.log"].endswith("\nthe last line\n")
    assert len(found["1-replica.log"]) <= collecting.TAIL_BYTES
    assert json.loads(found["settings.json"])["in force"]["delegation.token.expiry.check.interval.ms"] == "3600000"
    assert "connect" in found["zookeeper.json"].lower()
    assert stat.S_IMODE((tmp_path / "d.tar.gz").stat().st_mode) == 0o600
    with tarfile.open(tmp_path / "d.tar.gz") as opened:
        assert {member.mode for member in opened.getmembers()} == {0o600}


def test_no_znode_that_holds_secrets_is_read() -> None:
    paths = (*WHOLE, *WITH_CHILDREN, *NAMED)

    assert not [path for path in paths if path.startswith(("/config", "/delegation_token", "/kafka-acl"))]
    assert all(path.startswith(("/brokers", "/config", "/isr", "/log_dir")) for path in COUNTED)


def test_what_cannot_be_found_is_said_and_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Bridge):
        """Where no server answers."""

        async def start(self) -> None:
            raise Disconnected(f"no ZooKeeper server answers, {SECRET}")

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(command, "Bridge", Silent)
    monkeypatch.setattr(check_cluster, "look", never)
    monkeypatch.setattr(collecting, "WITHIN_S", 0.2)
    config = write(tmp_path)

    answer = diagnose(config, "--output=json", "--set=http.port=1")

    assert answer.exit_code == OK
    report = json.loads(answer.stdout)
    assert report["failures"]["znodes.json"] == "Disconnected: no ZooKeeper server answers, [hidden]"
    assert report["failures"]["checks.json"] == "not found within 0.2 s"
    assert "http/leader.txt" in report["failures"]
    assert "settings.json" in content(tmp_path / "d.tar.gz")
    assert "not found within 0.2 s" in content(tmp_path / "d.tar.gz")["README.txt"]


def test_a_configuration_that_cannot_be_used_is_part_of_the_diagnosis(tmp_path: Path) -> None:
    config = write(tmp_path)
    config.write_text(config.read_text().replace("broker.id=901", "broker.id=x"))

    answer = diagnose(config)

    assert answer.exit_code == OK
    assert "broker.id = x: expected a whole number" in content(tmp_path / "d.tar.gz")["settings.json"]
    assert "s3cr3t" not in "".join(content(tmp_path / "d.tar.gz").values())


def test_nothing_is_overwritten_and_a_bad_file_is_a_mistake(tmp_path: Path) -> None:
    config = write(tmp_path)
    (tmp_path / "bad.yml").write_text("basic_auth: {user: ann}\n")

    assert diagnose(config, f"--http.config.file={tmp_path / 'bad.yml'}").exit_code == MISUSED
    (tmp_path / "d.tar.gz").write_text("mine")
    refused = diagnose(config)
    unwritten = diagnose(config, f"--out={tmp_path / 'none' / 'd.tar.gz'}", "--set=zookeeper.connect=x:y")

    assert (refused.exit_code, "diagnose overwrites nothing" in refused.stderr) == (FAILED, True)
    assert (tmp_path / "d.tar.gz").read_text() == "mine"
    assert (unwritten.exit_code, "cannot be written" in unwritten.stderr) == (FAILED, True)

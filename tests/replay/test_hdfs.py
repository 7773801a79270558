"""Files in HDFS, on a real name node and real data nodes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.fs as fs  # type: ignore[import-untyped,unused-ignore]  # has no types
import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")
pytest.importorskip("hdfs_native")

from controller.lab.errors import JarsUnavailable, JavaUnavailable
from metrics.replay.commands.cli import replay
from metrics.replay.commands.jobs import ALL, Job, look, run
from metrics.replay.engine.engines import Local, OnSpark
from metrics.replay.engine.tasks import Engine
from metrics.replay.files import hdfs as our_hdfs
from metrics.replay.files.output import NotOurs, Output, filesystem_of
from metrics.replay.files.reading import CHUNK_BYTES
from metrics.replay.files.sources import NothingToRead, Source, open_for_reading, size_of, stored_files
from metrics.replay.files.state import history_rows, survey
from tests.replay.any_files import Tables, as_log, differing, in_order, rows_of, spoilt, write_log
from tests.replay.conftest import CAPTURED
from tests.replay.hadoop import hdfs
from tests.replay.test_any_files import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300, func_only=False)
NATIVE = CAPTURED.parent / "native" / "kafka-2.4.1"
WHOLE = sorted((*ALL, "edges", "ledger", "read.msgpack", "replay.json"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of HDFS."""
    try:
        with hdfs(tmp_path_factory.mktemp("hdfs")) as place:
            yield place
    except JarsUnavailable as error:
        pytest.skip(f"the jars of Hadoop {error.version} are not available: {error.reason}")
    except JavaUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def place(servers: str, request: pytest.FixtureRequest) -> str:
    """A directory for one test, not created yet."""
    return f"{servers}/{request.node.name.replace('[', '-').rstrip(']')}"


def put(local: Path, place: str) -> None:
    filesystem, inside = filesystem_of(place)
    filesystem.create_dir(inside, recursive=True)
    fs.copy_files(str(local), inside, fs.LocalFileSystem(), filesystem)


def names(place: str) -> list[str]:
    filesystem, inside = filesystem_of(place)
    return sorted(Path(info.path).name for info in filesystem.get_file_info(fs.FileSelector(inside)))


def tables(out: str, read_from: str = "") -> Tables:
    """All tables, with the paths of files replaced by local ones."""
    rows = {name: rows_of(out, name) for name in ALL}
    for row in rows["damage"]:
        row["file"] = row["file"].removeprefix(read_from).lstrip("/")
    return {name: in_order(found) for name, found in rows.items()}


def in_hdfs_and_here(engine: Engine, local: Path, place: str, home: Path) -> list[str]:
    """The differences between the tables in HDFS and those of the same files in a directory."""
    run(engine, Job((f"{place}/data",), f"{place}/out"))
    run(Local(), Job((str(local),), f"{home}/here"))
    assert names(f"{place}/out") == WHOLE
    return differing(tables(f"{home}/here", str(local)), tables(f"{place}/out", f"{place}/data"))


def test_a_captured_history_reads_the_same(place: str) -> None:
    put(CAPTURED, place)
    damage: list[Any] = []

    remote = list(history_rows(survey(stored_files([place])), damage))

    assert remote == list(history_rows(survey(stored_files([str(CAPTURED)])), damage))
    assert len(remote) > 10_000
    assert not damage


@pytest.mark.parametrize("cores", [1, 2])
def test_tables_are_written(place: str, tmp_path: Path, cores: int) -> None:
    put(NATIVE, f"{place}/data")
    engine = Local(cores)
    try:
        assert in_hdfs_and_here(engine, NATIVE, place, tmp_path) == []
    finally:
        engine.close()


def test_spark_writes_tables(place: str, tmp_path: Path, spark: SparkSession) -> None:
    put(NATIVE, f"{place}/data")

    assert in_hdfs_and_here(OnSpark(spark), NATIVE, place, tmp_path) == []


def test_damaged_and_compressed_logs_read_the_same(place: str, tmp_path: Path) -> None:
    known, logs = records("2.4.1"), tmp_path / "logs"
    write_log(logs, known[:100], suffix=".gz")
    write_log(logs, known[100:200], damaged=spoilt(as_log(known[100:200]), Random(1)))
    write_log(logs, known[200:])
    cut = write_log(logs, known[300:], suffix=".gz")
    cut.write_bytes(cut.read_bytes()[:-1000])
    put(logs, f"{place}/data")

    assert in_hdfs_and_here(Local(), logs, place, tmp_path) == []
    assert len(rows_of(f"{place}/out", "damage")) >= 2


def test_only_new_logs_are_read_and_the_tables_replaced(place: str, tmp_path: Path) -> None:
    known, logs, job = records("2.4.1"), tmp_path / "logs", Job((f"{place}/data",), f"{place}/out")
    write_log(logs, known[:150])
    put(logs, f"{place}/data")
    run(Local(), job)
    new = write_log(logs, known[150:])
    put(logs, f"{place}/data")

    looked = look(job, 1)

    assert looked.known is not None
    assert {piece.file for split in looked.splits for piece in split.pieces} == {f"{place}/data/{new.name}"}
    assert in_hdfs_and_here(Local(), logs, place, tmp_path) == []


def test_a_run_that_fails_leaves_the_former_tables_and_nothing_else(place: str) -> None:
    put(NATIVE, f"{place}/data")
    run(Local(), Job((f"{place}/data",), f"{place}/out"))
    before = tables(f"{place}/out")

    with pytest.raises(FileNotFoundError), Output(f"{place}/out").aside(["events", "moves"]) as aside:
        put(NATIVE, f"{aside}/events")

    assert names(f"{place}/out") == WHOLE
    assert tables(f"{place}/out") == before


def test_what_is_not_ours_stays(place: str) -> None:
    filesystem, inside = filesystem_of(place)
    filesystem.create_dir(inside)
    with filesystem.open_output_stream(f"{inside}/notes.txt") as file:
        file.write(b"mine")

    with pytest.raises(NotOurs, match=r"holds what no replay has made \(notes.txt\)"):
        run(Local(), Job((str(NATIVE),), place))
    with pytest.raises(NotOurs, match="is a file"):
        Output(f"{place}/notes.txt").claim(["events"])

    assert names(place) == ["notes.txt"]


def test_much_is_read_at_a_time_and_from_anywhere(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem, inside = filesystem_of(place)
    content = os.urandom(1 << 20) * 20
    filesystem.create_dir(inside)
    with filesystem.open_output_stream(f"{inside}/log.1") as file:
        file.write(content)
    asked: list[int] = []
    read = our_hdfs._Read.read

    def counted(file: Any, size: int) -> bytes:
        asked.append(size)
        return read(file, size)

    monkeypatch.setattr(our_hdfs._Read, "read", counted)
    [stored] = stored_files([f"{place}/log.1"])

    assert b"".join(Source(stored).chunks(5)) == content[5:]
    assert asked == [CHUNK_BYTES] * 4
    assert size_of(stored.path) == len(content)
    with open_for_reading(stored.path) as opened:
        assert (opened.seek(-7, os.SEEK_END), opened.read(9)) == (len(content) - 7, content[-7:])
        opened.seek(len(content) + 1)
        assert opened.read(1) == b""


def test_name_services_and_mount_tables_are_those_of_hadoops_settings(
    place: str, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(NATIVE, f"{place}/data")
    settings = {
        "dfs.ha.namenodes.names": "none,one",
        "dfs.namenode.rpc-address.names.none": "127.0.0.1:1",
        "dfs.namenode.rpc-address.names.one": servers.removeprefix("hdfs://"),
        "fs.viewfs.mounttable.mounts.link./here": place,
        "fs.viewfs.mounttable.mounts.linkFallback": f"{servers}/",  # the library wants one
    }
    (tmp_path / "core-site.xml").write_text(as_xml(settings))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    for data in (f"hdfs://names/{place.rpartition('/')[2]}/data", "viewfs://mounts/here/data"):
        run(Local(), Job((data,), f"{data}-out", tables=("events", "moves")))

        assert data in stored_files([data])[0].path
        assert len(rows_of(f"{data}-out", "events")) > 100


def as_xml(settings: dict[str, str]) -> str:
    properties = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    return f"<configuration>{''.join(properties)}</configuration>"


def said(*arguments: str) -> str:
    return CliRunner().invoke(replay, arguments).output


def test_the_command_writes_and_shows_what_is_there(place: str) -> None:
    put(NATIVE, f"{place}/data")

    assert f"18 tables and report.html below {place}/out" in said(f"{place}/data", "--out", f"{place}/out")
    assert "reassignment-100.json" in said(f"{place}/data", "--out", f"{place}/out", "--as-of", "0x100")
    assert "replicas" in said("ask", f"{place}/data", "orders-0", "0x100")


def test_what_is_not_there_or_not_allowed_is_said_in_one_line(
    place: str, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NothingToRead, match="no log"):
        stored_files([place])
    missing = f"{place}/log.1"
    error = f"Error: File does not exist: {missing.removeprefix(servers)}\n"
    assert said(missing, "--out", str(tmp_path / "out")) == error
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    elsewhere = servers.replace("127.0.0.1", "localhost")  # another connection
    assert (
        said(str(NATIVE), "--out", f"{elsewhere}/strangers")
        .splitlines()[-1]
        .startswith("Error: AccessControlException: Permission denied: user=stranger, access=WRITE")
    )


def test_a_name_node_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(our_hdfs, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        place = f"hdfs://127.0.0.1:{mute.getsockname()[1]}/x"
        assert said(place, "--out", str(tmp_path)) == f"Error: {place} cannot be opened: no answer within 0.5 s\n"


def test_a_place_that_names_a_user_is_refused() -> None:
    with pytest.raises(ValueError, match="HADOOP_USER_NAME"):
        filesystem_of("hdfs://ann@namenode:8020/x")


def test_a_forked_process_does_not_wait_for_threads_that_it_has_not(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem_of(servers)
    monkeypatch.setattr(os, "getpid", lambda: 1)

    with pytest.raises(ValueError, match="after a fork"):
        filesystem_of(servers)

"""Files in an object store that speaks S3, which no operating system can open by path."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

from metrics.replay.commands.cli import replay
from metrics.replay.commands.jobs import ALL, Job, run
from metrics.replay.engine.engines import Local, OnSpark
from metrics.replay.engine.tasks import Engine
from metrics.replay.files import sources
from metrics.replay.files.sources import in_a_line, stored_files
from metrics.replay.files.state import history_rows, survey
from metrics.replay.spark.zookeeper_source import ZooKeeperReader
from tests.replay.any_files import differing, in_order, rows_of
from tests.replay.conftest import CAPTURED
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = b'{"partitions":{%s}}'
BUCKET = "s3://bucket/data"


class Store(BaseHTTPRequestHandler):
    """The parts of S3 needed to read and write; its objects are files, or directories if a name ends with a slash."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is written in two pieces

    def __init__(self, root: Path, asked: list[str], parts: dict[tuple[str, int], bytes], *args: Any) -> None:
        self._root, self._asked, self._parts = root, asked, parts
        super().__init__(*args)

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        file, query = self._wanted()
        body = self._body()
        source = self.headers.get("x-amz-copy-source")
        if "uploadId" in query:
            self._parts[query["uploadId"][0], int(query["partNumber"][0])] = body
        elif self.path.partition("?")[0].endswith("/"):
            file.mkdir(parents=True, exist_ok=True)
        elif source is not None:
            self._store(file, self._file(source).read_bytes())
            self._send(200, b"<CopyObjectResult><ETag>1</ETag></CopyObjectResult>")
            return
        else:
            self._store(file, body)
        self._send(200, b"", {"ETag": "1"})

    def do_POST(self) -> None:
        file, query = self._wanted()
        body = self._body().decode()
        if "uploads" in query:
            answer = f"<InitiateMultipartUploadResult><UploadId>{uuid4()}</UploadId></InitiateMultipartUploadResult>"
        elif "uploadId" in query:
            uploaded = sorted(key for key in self._parts if key[0] == query["uploadId"][0])
            self._store(file, b"".join(map(self._parts.pop, uploaded)))
            answer = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>"
        else:
            for key in sorted(re.findall("<Key>(.*?)</Key>", body), key=len, reverse=True):
                self._forget(self._file(f"/bucket/{key}"))
            answer = "<DeleteResult/>"
        self._send(200, answer.encode())

    def do_DELETE(self) -> None:
        self._forget(self._wanted()[0])
        self._send(204, b"")

    def _body(self) -> bytes:
        """Read a body; without a length it comes in chunks, which S3's clients chunk once more."""
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = joined(self.rfile) if "Transfer-Encoding" in self.headers else b""
        return joined(BytesIO(body)) if "aws-chunked" in self.headers.get("Content-Encoding", "") else body

    def _wanted(self) -> tuple[Path, dict[str, list[str]]]:
        url = urlsplit(self.path)
        self._asked.append(f"{self.command} {url.path} {self.headers.get('Range', '')}".strip())
        return self._file(url.path), parse_qs(url.query, keep_blank_values=True)

    def _file(self, path: str) -> Path:
        return self._root / unquote(path).lstrip("/").removeprefix("bucket").strip("/")

    def _store(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def _forget(self, file: Path) -> None:
        """Remove empty directories."""
        if file.is_file():
            file.unlink()
        elif file.is_dir() and not any(file.iterdir()):
            file.rmdir()

    def _answer(self) -> None:
        file, query = self._wanted()
        if "list-type" in query:
            self._send(200, self._list(query.get("prefix", [""])[0], is_flat="delimiter" not in query).encode())
        elif self.path == "/bucket" or (self.path.endswith("/") and file.is_dir()):
            self._send(200, b"")
        elif not file.is_file():
            self._send(404, b"")
        else:
            self._object(file.read_bytes())

    def _object(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, data)
            return
        first, last = (int(n) for n in wanted.removeprefix("bytes=").split("-"))
        last = min(last, len(data) - 1)
        self._send(206, data[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(data)}"})

    def _list(self, prefix: str, *, is_flat: bool) -> str:
        keys = {f.relative_to(self._root).as_posix() + "/" * f.is_dir(): f for f in self._root.rglob("*")}
        entries, places = "", set()
        for key in sorted(key for key in keys if key.startswith(prefix)):
            inner, slash, _ = key[len(prefix) :].partition("/")
            if slash and not is_flat:
                places.add(f"{prefix}{inner}/")
                continue
            size = 0 if key.endswith("/") else keys[key].stat().st_size
            entries += (
                f"<Contents><Key>{key}</Key><Size>{size}</Size>"
                "<LastModified>2026-11-21T08:00:00.000Z</LastModified></Contents>"
            )
        common = "".join(f"<CommonPrefixes><Prefix>{p}</Prefix></CommonPrefixes>" for p in sorted(places))
        count = f"<KeyCount>{entries.count('<Key>') + len(places)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult><Name>bucket</Name>{count}{entries}{common}</ListBucketResult>"

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Last-Modified": _DATE, **(headers or {})}.items():
            if status != 204 or name != "Content-Length":
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def joined(stream: BufferedIOBase) -> bytes:
    """Join HTTP chunks, each after its length, with headers after the last."""
    parts = []
    while size := int(stream.readline().partition(b";")[0], 16):
        parts.append(stream.read(size))
        stream.readline()
    while stream.readline().strip():
        pass
    return b"".join(parts)


_DATE = "Sat, 21 Nov 2026 08:00:00 GMT"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The requests to the store; its objects are the files below `tmp_path`."""
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Store, tmp_path, seen, {}))
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    yield seen
    server.shutdown()
    server.server_close()


def test_a_captured_history_reads_the_same_from_an_object_store(asked: list[str], tmp_path: Path) -> None:
    shutil.copytree(CAPTURED, tmp_path / "data")
    damage: list[Damage] = []

    remote = list(history_rows(survey(stored_files([BUCKET])), damage))

    assert remote == list(history_rows(survey(stored_files([str(tmp_path / "data")])), damage))
    assert len(remote) > 10_000
    assert not damage
    assert not [request for request in asked if not request.startswith(("GET", "HEAD"))]


def test_the_splits_of_a_log_are_read_each_by_its_range(asked: list[str], tmp_path: Path) -> None:
    bodies = [
        zk.header(zxid, ops.SET_DATA) + zk.set_data("/brokers/topics/t", TOPIC % (b" " * 50_000), zxid)
        for zxid in range(1, 401)
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log.1").write_bytes(zk.log(*bodies, padding=4096))
    reader = ZooKeeperReader({"path": BUCKET, "splitBytes": "5000000"}, "transactions")

    splits = reader.partitions()
    asked.clear()
    zxids = [[zxid for batch in reader.read(split) for zxid in batch["zxid"].to_pylist()] for split in splits]

    assert [zxid for part in zxids for zxid in part] == list(range(1, 401))
    assert len(splits) == len([part for part in zxids if part]) == 4
    starts = {int(r.partition("bytes=")[2].split("-")[0]) for r in asked if "bytes=" in r}
    assert {split.split.pieces[0].offset for split in splits} <= starts  # type: ignore[attr-defined]


NATIVE = CAPTURED.parent / "native" / "kafka-2.4.1"


def in_store_and_here(engine: Engine, home: Path) -> list[str]:
    """The differences between the tables in a store and those of the same files in a directory."""
    for out, data in (("s3a://bucket/out", "s3a://bucket/data"), (f"{home}/here", str(NATIVE))):
        run(engine, Job((data,), out))
    store, here = ({name: in_order(rows_of(out, name)) for name in ALL} for out in ("s3://bucket/out", f"{home}/here"))
    return differing(store, here)


def test_tables_are_written_to_an_object_store_and_replaced_there(asked: list[str], tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "data")

    assert in_store_and_here(Local(), tmp_path) == []
    assert in_store_and_here(Local(), tmp_path) == []  # the former results are kept

    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        (*ALL, "edges", "ledger", "read.msgpack", "replay.json")
    )


def test_spark_writes_tables_to_an_object_store(
    asked: list[str], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(NATIVE, tmp_path / "data")
    for name in (name for name in os.environ if name.startswith("AWS_")):  # Spark was started before the store
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])

    assert in_store_and_here(OnSpark(spark), tmp_path) == []


def test_the_command_writes_to_an_object_store_and_shows_what_is_there(asked: list[str], tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "data")

    def said(*arguments: str) -> str:
        return CliRunner().invoke(replay, arguments).output

    assert "18 tables and report.html below s3://bucket/out" in said("s3a://bucket/data", "--out", "s3a://bucket/out")
    assert (tmp_path / "out" / "report.html").stat().st_size > 50_000
    assert "reassignment-100.json" in said("s3a://bucket/data", "--out", "s3a://bucket/out", "--as-of", "0x100")
    assert "replicas" in said("ask", "s3a://bucket/data", "orders-0", "0x100")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes.txt").write_text("mine")
    assert "holds what no replay has made (notes.txt)" in said("s3a://bucket/data", "--out", "s3a://bucket/theirs")


@pytest.mark.parametrize(
    ("place", "inside"),
    [
        ("hdfs://namenode:8020{}", "{}"),
        ("gs://anonymous@{}", "{}"),
        ("s3://key:secret@{}/", "{}"),
        ("http://there{}/", "http://there{}/"),  # by fsspec's name
    ],
)
def test_files_in_a_store_are_named_as_the_place_was(
    place: str, inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("log.1", "version-2/snapshot.0")
    at, known_as = place.format("/data"), inside.format("/data")

    class Listed:
        def find(self, path: str) -> list[str]:
            return [f"{path}/{name}" for name in names]

    monkeypatch.setattr(sources, "arrow_filesystem", lambda _: (Listed(), known_as))

    assert [file.path for file in stored_files([at])] == [f"{at.rstrip('/')}/{name}" for name in reversed(names)]


def test_what_a_store_lacks_is_said_with_what_to_do() -> None:
    def said(text: str) -> str:
        return in_a_line(OSError(text))

    assert said("Bucket 'b' not found. To create buckets, enable the allow_bucket_creation option.") == (
        "Bucket 'b' not found. Create it first."
    )
    assert "GOOGLE_APPLICATION_CREDENTIALS" in said(
        "Retry policy exhausted: Could not create a OAuth2 access token to …"
    )
    assert "HADOOP_CONF_DIR" in said("No NameNode hosts found")
    assert said("UNAVAILABLE: no answer error_info={reason=, domain=}") == "UNAVAILABLE: no answer"

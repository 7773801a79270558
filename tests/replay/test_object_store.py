"""Files that no operating system can open by path: an object store that speaks S3."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("pyspark")

from metrics.replay.sources import stored_files
from metrics.replay.state import history_rows, survey
from metrics.replay.zookeeper_source import ZooKeeperReader
from tests.replay.conftest import CAPTURED
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage

TOPIC = b'{"partitions":{%s}}'
BUCKET = "s3://bucket/data"


class Store(BaseHTTPRequestHandler):
    """What reading needs of S3: lists, heads, and ranges of objects; objects are the files of a directory."""

    protocol_version = "HTTP/1.1"

    def __init__(self, root: Path, asked: list[str], *args: Any) -> None:
        self._root, self._asked = root, asked
        super().__init__(*args)

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._asked.append(f"PUT {self.path}")
        self._send(403, b"")

    do_POST = do_DELETE = do_PUT  # noqa: N815  # the library's names

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self._asked.append(f"{self.command} {url.path} {self.headers.get('Range', '')}".strip())
        query = parse_qs(url.query)
        file = self._root / url.path.removeprefix("/bucket").lstrip("/")
        if "list-type" in query:
            self._send(200, self._list(query.get("prefix", [""])[0]).encode())
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

    def _list(self, prefix: str) -> str:
        found = [f for f in self._root.rglob("*") if f.is_file() and f.relative_to(self._root).as_posix() >= prefix]
        entries = "".join(
            f"<Contents><Key>{f.relative_to(self._root).as_posix()}</Key><Size>{f.stat().st_size}</Size>"
            "<LastModified>2026-11-21T08:00:00.000Z</LastModified></Contents>"
            for f in sorted(found)
        )
        return f"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Last-Modified": _DATE, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


_DATE = "Sat, 21 Nov 2026 08:00:00 GMT"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The requests that the store got; its objects are the files below `tmp_path`."""
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Store, tmp_path, seen))
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

"""What do ZooKeeper's own tools print for a file, and what would they print for our rows?"""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from controller.lab.jars import zookeeper_class_path
from controller.lab.java import QUICK_START, find_java
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.jute import Acl, acl_of
from zk_layout.storage.operations import Row
from zk_layout.storage.tree import Node, Tree

LOG_TOOL = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
SNAPSHOT_TOOL = "org.apache.zookeeper.server.SnapshotFormatter"
_TIME = "%m/%d/%y, %I:%M:%S %p UTC"
_LINE = re.compile(r"^(?=\d+/\d+/\d+, \d+:\d+:\d+.[AP]M UTC session 0x)", re.MULTILINE)


def output_of(tool: str, *arguments: str | Path) -> str:
    run = subprocess.run(
        [
            find_java().executable, *QUICK_START, "-Duser.timezone=UTC", "-Duser.language=en",
            "-Duser.country=US",
            "-cp", ":".join(map(str, zookeeper_class_path())), tool, *arguments,
        ],
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    return run.stdout.decode("utf-8", "surrogateescape")


def printed_transactions(log: Path) -> list[str]:
    """TxnLogToolkit's output, one text a transaction."""
    text = output_of(LOG_TOOL, log).replace("\u202f", " ")
    transactions = _LINE.split(text)[1:]
    transactions[-1] = transactions[-1].rsplit("EOF reached", 1)[0]
    return [transaction.rstrip("\n") for transaction in transactions]


def as_printed(rows: Iterable[Row]) -> list[str]:
    """The same texts, from our rows."""
    return [_transaction(list(parts)) for _, parts in groupby(rows, key=lambda row: row[0])]


def _transaction(parts: list[Row]) -> str:
    zxid, time_ms, session, cxid, kind = parts[0][:5]
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    time = moment.strftime(_TIME).replace("/0", "/").lstrip("0").replace(", 0", ", ")
    head = f"{time} session {_hex(session, 64)} cxid {_hex(cxid, 32)} zxid {zxid:#x} {ops.NAMES[kind]}"
    if kind == ops.MULTI:
        text = ";".join(f"{ops.NAMES[row[6]]}:{_encoded(row).decode('utf-8', 'replace')}" for row in parts)
    elif kind == ops.CLOSE_SESSION:
        text = "v{" + ",".join(f"'{row[7]}" for row in parts[1:]) + "}"
    else:
        text = _fields(parts[0])
    return f"{head} {text}".rstrip("\n")


def _hex(value: int, bits: int) -> str:
    return f"{value % 2**bits:#x}"


def _fields(row: Row) -> str:
    op, path, data, version, owner, acl = row[6:12]
    text = (data or b"").decode("utf-8", "replace")
    match op:
        case ops.CREATE | ops.CREATE2:
            return f"{path},{text},{_acl_list(acl_of(acl))},{str(owner != 0).lower()},{version}"
        case ops.CREATE_CONTAINER:
            return f"{path},{text},{_acl_list(acl_of(acl))},{version}"
        case ops.CREATE_TTL:
            return f"{path},{text},{_acl_list(acl_of(acl))},{version},{owner & 2**40 - 1}"
        case ops.SET_DATA | ops.RECONFIG:
            return f"{path},{text},{version}"
        case ops.SET_ACL:
            entries = ",".join(f"s{{{p},s{{'{scheme},'{identity}}}}}" for p, scheme, identity in acl_of(acl))
            return f"'{path},v{{{entries}}},{version}"
        case ops.DELETE | ops.DELETE_CONTAINER:
            return f"'{path}"
        case _:
            return str(version)


def _acl_list(acl: Acl) -> str:
    return "[" + ", ".join(f"{p},s{{'{scheme},'{identity}}}\n" for p, scheme, identity in acl) + "]"


def _encoded(row: Row) -> bytes:
    """A part of a multi, encoded again from its fields."""
    op, path, data, version, owner = row[6:11]
    match op:
        case ops.CREATE | ops.CREATE2:
            return zk.create(path, data, ephemeral=owner != 0, cversion=version)
        case ops.SET_DATA:
            return zk.set_data(path, data, version)
        case ops.CHECK:
            return zk.check(path, version)
        case ops.DELETE:
            return zk.delete(path)
        case _:
            return zk.number(version)


def formatted_snapshot(snapshot: Path) -> dict[str, str]:
    """The lines that SnapshotFormatter prints, by path; the sessions under an empty path."""
    text = output_of(SNAPSHOT_TOOL, "-d", snapshot)
    znodes, _, sessions = text.partition("Session Details (sid, timeout, ephemeralCount):\n")
    blocks = {}
    for block in znodes.split("----\n")[1:]:
        path, _, stat = block.partition("\n")
        blocks[path] = stat.strip()
    sessions = re.split("Target zxid|----", sessions)[0]
    blocks[""] = "\n".join(sorted(sessions.strip().splitlines()))
    return {path: block for path, block in blocks.items() if path or block}


def as_formatted(tree: Tree) -> dict[str, str]:
    """The same lines, from our znodes."""
    blocks = {path: _stat(node) for path, node in tree.nodes.items()}
    if tree.sessions:
        lines = [f"{s % 2**64:#016x}, {t}, {len(tree.ephemerals(s))}" for s, t in tree.sessions.items()]
        blocks[""] = "\n".join(sorted(lines))
    return blocks


def _stat(node: Node) -> str:
    return "\n".join(
        (
            f"cZxid = {node.czxid:#016x}",
            f"  ctime = {_date(node.ctime_ms)}",
            f"  mZxid = {node.mzxid:#016x}",
            f"  mtime = {_date(node.mtime_ms)}",
            f"  pZxid = {node.pzxid:#016x}",
            f"  cversion = {node.cversion}",
            f"  dataVersion = {node.version}",
            f"  aclVersion = {node.aversion}",
            f"  ephemeralOwner = {node.owner % 2**64:#016x}",
            f"  data = {base64.b64encode(node.data or b'').decode()}",
        )
    ).strip()


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")

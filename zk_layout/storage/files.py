"""Which files of a data directory make up the history, and what do their names say?

Source: Util.getZxidFromName, FileTxnLog.getLogFiles and ZxidUtils of ZooKeeper.
"""

from __future__ import annotations

import re

from msgspec import Struct

_NAME = re.compile(r"^(.*[/.])?(log|snapshot)\.([0-9a-fA-F]+)(?:\.fixed)?(?:\.(gz|snappy))?$")

LOG, SNAPSHOT = "log", "snapshot"


class StoredFile(Struct, frozen=True, order=True):
    """One file of the history, according to its name.

    Shape:
        `zxid` is that of a log's first transaction, or the last one that a snapshot shows in full.
        `compression` is "", "gz" or "snappy".
    """

    zxid: int
    path: str
    kind: str
    compression: str = ""


def named(path: str) -> StoredFile | None:
    """Parse a file's name; None for other files. Captured files may have a prefix: `incident-7.log.1.gz`.

    `log.1.fixed` is what TxnLogToolkit's recovery made of `log.1`.

    >>> named("version-2/log.100000001.gz")
    StoredFile(zxid=4294967297, path='version-2/log.100000001.gz', kind='log', compression='gz')
    >>> named("log.2a.fixed").zxid
    42
    >>> named("version-2/acceptedEpoch") is None
    True
    """
    match = _NAME.match(path)
    if match is None:
        return None
    return StoredFile(int(match[3], 16), path, match[2], match[4] or "")


def has_prefix(path: str) -> bool:
    """Whether a file is named like one of ZooKeeper's with a prefix, as logs of programs are: `zookeeper.log.1`.

    >>> has_prefix("version-2/log.1"), has_prefix("version-2/zookeeper.log.1")
    (False, True)
    """
    return not path.rpartition("/")[2].startswith((f"{LOG}.", f"{SNAPSHOT}."))


def is_compressed(path: str) -> bool:
    """Whether a file can only be read from its start.

    >>> is_compressed("log.1"), is_compressed("log.1.gz")
    (False, True)
    """
    file = named(path)
    return file is not None and file.compression != ""


def epoch_and_counter(zxid: int) -> tuple[int, int]:
    """A leader's epoch and its count of transactions.

    >>> epoch_and_counter(0x200000005)
    (2, 5)
    """
    return zxid >> 32, zxid & 0xFFFFFFFF

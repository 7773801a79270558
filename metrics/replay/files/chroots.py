"""Below which path of ZooKeeper does Kafka keep its znodes?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from metrics.replay.files.known import NotKnown

# Znodes that every Kafka cluster has, and hardly any other application.
OF_KAFKA = r"^(?P<chroot>.*)/(?:brokers/(?:ids|topics)|controller_epoch)(?:/.*)?$"
_of_kafka = re.compile(OF_KAFKA).match


def check_chroot(paths: Iterable[str], chroot: str) -> None:
    """Check that Kafka's znodes are below `chroot`, if they are anywhere.

    Raises:
        NotKnown: they are only elsewhere, or nothing is below `chroot`; the message says where they are.
    """
    found: set[str] = set()
    for path in paths:
        match = _of_kafka(path)
        if match is not None and match["chroot"] == chroot.rstrip("/"):
            return
        if match is not None:
            found.add(match["chroot"])
    if found:
        raise NotKnown(_elsewhere(chroot, sorted(found)))
    if chroot.rstrip("/"):
        raise NotKnown(f"nothing is known of a Kafka below {chroot}: no znode of one is there")


def _elsewhere(chroot: str, found: list[str]) -> str:
    others = " or ".join(f"--chroot {place or '/'}" for place in found[:5])
    return f"nothing is known of a Kafka below {chroot or '/'}: its znodes are elsewhere; give {others}"

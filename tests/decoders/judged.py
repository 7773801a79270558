"""Which differences between Kafka's decoders and ours are meant, and why? A difference without a reason here fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.decoders.comparing import REFUSED, Difference

NOTHING: Final = {"topic": "[{},", "config": "{}", "acl": "[]", "isr": "[]", "election": "[]"}
"""What Kafka reads, by its beginning, in JSON that it cannot read. In other families it throws."""

_HALF_PAIR: Final = re.compile(rb"\\\0*u\0*[dD]\0*[89a-fA-F]|\xed[\xa0-\xbf]")
_OUT_OF_BOUNDS: Final = re.compile(
    r"Expected `(int|str)` (>=|<=|of length|matching)|of range|no range|port above|is not an endpoint|decimal numbers"
)
_NOT_NEEDED: Final = {
    "broker": "the version, jmx_port and features of a registration, and the port of one without endpoints",
    "token": "who may renew a token, its version and its time of issue",
    "feature": "an unknown version, status or level: the znode is written again",
    "legacy": "the version of old tools' moves, and keys that Kafka does not know",
    "producer": "blocks that are longer than a Java array",
}


def _is_nothing_to_kafka(found: Difference) -> bool:
    nothing = NOTHING.get(found.input.family)
    return found.kafkas == REFUSED or (nothing is not None and found.kafkas.startswith(nothing))


def _is_set_aside(found: Difference) -> bool:
    return found.ours == REFUSED and _is_nothing_to_kafka(found)


def _is_out_of_bounds(found: Difference) -> bool:
    return found.ours == REFUSED and _OUT_OF_BOUNDS.search(found.why) is not None


def _is_half_a_pair(found: Difference) -> bool:
    return found.ours == REFUSED and _HALF_PAIR.search(found.input.data) is not None


def _is_odd_utf_8(found: Difference) -> bool:
    return found.ours == REFUSED and "codec can't decode" in found.why


def _is_deep(found: Difference) -> bool:
    return found.ours == REFUSED and "nested deeper" in found.why


def _is_unused(found: Difference) -> bool:
    return (
        found.input.family == "broker" and re.search(r"`\$\.(host|port|endpoints|listener_\w+)", found.why) is not None
    )


def _is_no_text(found: Difference) -> bool:
    data = found.input.data
    try:
        data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        return _is_nothing_to_kafka(found)
    return False


def _is_half_a_pair_unread(found: Difference) -> bool:
    return found.kafkas == REFUSED and _HALF_PAIR.search(found.input.data) is not None


def _is_null(found: Difference) -> bool:
    return found.input.family == "topic" and found.kafkas == REFUSED and "null" in _text(found)


def _is_long(found: Difference) -> bool:
    """Jackson since 2.15 reads numbers of up to 1,000 digits, since 2.16 names of up to 50,000 characters."""
    return _is_nothing_to_kafka(found) and re.search(r"\d{1000}", _text(found)) is not None


def _is_not_needed(family: str, found: Difference) -> bool:
    return found.input.family == family and found.kafkas == REFUSED


def _is_for_brokers(found: Difference) -> bool:
    return found.input.family == "aclchange" and REFUSED in (found.kafkas, found.ours)


def _is_made_up(found: Difference) -> bool:
    return found.input.family == "legacy" and found.ours == REFUSED and found.why.startswith("entry ")


def _is_cut_to_16_bits(found: Difference) -> bool:
    return found.input.family == "feature" and REFUSED not in (found.kafkas, found.ours) and "-" in found.kafkas


def _is_no_partition(found: Difference) -> bool:
    return re.search(r"`key` in `\$\.(adding|removing)_replicas`", found.why) is not None


def _is_newer(found: Difference) -> bool:
    """Ids of topics came with 2.8, the recovery state of leaders with 3.2, unknown operations of ACLs with 2.5."""
    match found.input.family:
        case "topic":
            is_same = found.kafkas[:-5] == found.ours[: len(found.kafkas) - 5]
            return found.kafkas.endswith(",null]") and (is_same or "topic_id" in found.why)
        case "state":
            return found.ours == REFUSED and "recovery_state" in found.why
        case "acl":
            return found.kafkas == REFUSED and "\\tUNKNOWN" in found.ours
    return False


def _text(found: Difference) -> str:
    data = found.input.data
    return data.decode(json.detect_encoding(data), "replace")


REASONS: Final[dict[str, Callable[[Difference], bool]]] = {
    "what Kafka takes for nothing, as it cannot read it or a topic lacks `partitions`: set aside here": _is_set_aside,
    "a notification for brokers, which a controller only writes": _is_for_brokers,
    "a number, name or id that cannot be sent on to brokers (zk_layout/bounds.py)": _is_out_of_bounds,
    "half a pair of characters, which UTF-8 cannot hold: it could not be written again": _is_half_a_pair,
    "bytes that are no UTF-8, but read by Jackson": _is_odd_utf_8,
    "nested deeper than any znode": _is_deep,
    "host and port of a registration that has endpoints, or endpoints of one of version 1": _is_unused,
    "an entry without a name or a number, for which Kafka takes null and 0, or with one of another type": _is_made_up,
    "a level of a feature that Kafka cuts to 16 bits": _is_cut_to_16_bits,
    "a partition that is added or removed, but has no number": _is_no_partition,
    "what this release of Kafka does not know yet": _is_newer,
    "bytes that are no text, in a key or value that nothing is read from, or behind UTF-32": _is_no_text,
    "half a pair of characters in what is not read": _is_half_a_pair_unread,
    "null in place of a topic's maps, which means none": _is_null,
    "a number or a name longer than Jackson reads since 2.15": _is_long,
    **{f"what is not needed here: {what}": partial(_is_not_needed, family) for family, what in _NOT_NEEDED.items()},
}


def judged(found: Difference) -> str | None:
    """Why the difference is meant; None if it has no reason."""
    return next((reason for reason, applies in REASONS.items() if applies(found)), None)

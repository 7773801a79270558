"""What is in the log of moves, and is it whole?"""

from __future__ import annotations

import json
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from controller.core.messages.effects import Asking, MoveAccounted, RequestAccounted
from controller.core.messages.requests import Caller
from controller.logs.floods import MOST_A_WINDOW
from zk_layout.ids import BrokerId, PartitionId, RequestId, TopicName, TopicPartition

BY = Asking(RequestId(7), "a client", 1_000, Caller("OUTSIDE", "10.0.0.2", "tool", "User:ann"), "disks")
UNKNOWN = Asking(None, "found under way", 1_000)
SCRIPT = """
import pickle, sys
from pathlib import Path
from controller import logs
from controller.core.messages.effects import RequestAccounted
from controller.monitoring import moves_log
logs.configure("error", "text")
logs.separate(moves_log.LOGGER, "info", Path(sys.argv[1]), "json", is_whole=True)
for one in pickle.load(sys.stdin.buffer):
    (moves_log.request if isinstance(one, RequestAccounted) else moves_log.move)(one)
"""


def move(by: Asking, number: int = 0) -> MoveAccounted:
    at = TopicPartition(TopicName("orders"), PartitionId(number))
    return MoveAccounted(by, 3_500, at, None, (BrokerId(3), BrokerId(2)), False, "completed", None, None, 2.0, 0.5)


def written(path: Path, *told: RequestAccounted | MoveAccounted) -> list[dict[str, object]]:
    """The lines that these leave in the file. Logs are configured for a whole process, so it is one of its own."""
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], input=pickle.dumps(told), check=True, timeout=60)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_is_one_document_that_says_everything_or_null(tmp_path: Path) -> None:
    path = tmp_path / "moves.log"

    accepted, ended = written(path, RequestAccounted(BY, 1_000, False, (("in progress", 2),)), move(UNKNOWN))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert accepted | {"time": 0} == {
        **{"time": 0, "level": "info", "event": "request accepted", "component": "moves"},
        **{"request": 7, "origin": "a client", "requested": "1970-01-01T00:00:01.000+00:00"},
        **{"principal": "User:ann", "client_id": "tool", "address": "10.0.0.2", "reason": "disks"},
        **{"happened": "1970-01-01T00:00:01.000+00:00", "counts": {"in progress": 2}},
    }
    assert ended | {"time": 0} == {
        **{"time": 0, "level": "info", "event": "move ended", "component": "moves"},
        **{"request": None, "origin": "found under way", "requested": "1970-01-01T00:00:01.000+00:00"},
        **{"principal": None, "client_id": None, "address": None, "reason": None},
        **{"happened": "1970-01-01T00:00:03.500+00:00", "topic": "orders", "partition": 0},
        **{"before": None, "after": [3, 2], "is_cancel": False, "outcome": "completed", "copied_bytes": None},
        **{"waiting_s": None, "copying_s": 2.0, "finishing_s": 0.5},
    }


@pytest.mark.parametrize("count", [3 * MOST_A_WINDOW])
def test_no_line_is_left_out_because_many_are_alike(tmp_path: Path, count: int) -> None:
    found = written(tmp_path / "moves.log", *(move(BY, number) for number in range(count)))

    assert [line["partition"] for line in found] == list(range(count))

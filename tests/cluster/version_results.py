"""What did the walks through all versions show, and how does docs/versions.md present it?

The tests record each walk as it goes; `python -m tests.cluster.version_results docs/versions.md` makes the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from controller.lab.jars import zookeeper_class_path
from controller.lab.java import find_java

KEPT = Path(__file__).parents[2] / ".cache" / "versions"
UPGRADE = "rolling upgrade"
PASSED, FAILED = "✓", "✗"

_HEAD = """\
# Versions

What was run on real brokers of versions 2.4 to 3.9 under our controller: three brokers, one ZooKeeper, two replicas of
ours, and all the while a producer with `acks=all` and a consumer. `make versions` runs it and makes this page from
the results of [test_versions.py](../tests/cluster/test_versions.py) and
[test_rolling_upgrade.py](../tests/cluster/test_rolling_upgrade.py), of which
`make test` runs the oldest version and the upgrade; most of its other tests use 3.9.1.
"""


class Walked(Struct):
    """The result of one walk: facts of its version, and for each completed step what was run."""

    name: str
    day: str
    java: str
    zookeeper: str
    facts: dict[str, str] = {}
    steps: dict[str, str] = {}
    failed: bool = True


@contextmanager
def writing_down(name: str) -> Iterator[Walked]:
    """Record a walk's results, even if it fails half-way."""
    zookeeper = next(jar.name for jar in zookeeper_class_path() if jar.name.startswith("zookeeper-3"))
    walked = Walked(
        name,
        datetime.now(UTC).date().isoformat(),
        str(find_java().major),
        zookeeper.removeprefix("zookeeper-").removesuffix(".jar"),
    )
    try:
        yield walked
        walked.failed = False
    finally:
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(walked)))


def read(names: Sequence[str]) -> list[Walked]:
    """The records of these walks.

    Raises:
        FileNotFoundError: one was never run.
    """
    return [msgspec.json.decode((KEPT / f"{name}.json").read_bytes(), type=Walked) for name in names]


def as_markdown(walks: Sequence[Walked], upgrade: Walked, steps: Mapping[str, str]) -> str:
    """The page. `steps` has each step's description, in order."""
    facts = dict.fromkeys(fact for walked in walks for fact in walked.facts)
    rows = [[fact, *(walked.facts.get(fact, "") for walked in walks)] for fact in facts]
    rows += [[step, *(_outcome(walked, step) for walked in walks)] for step in steps]
    run = [[step, shows, _what_ran(walks, step)] for step, shows in steps.items()]
    days = sorted({walked.day for walked in (*walks, upgrade)})
    java = ", ".join(sorted({walked.java for walked in walks}))
    zookeeper = ", ".join(sorted({walked.zookeeper for walked in walks}))
    return "\n".join(
        (
            _HEAD,
            f"Last run {' to '.join(dict.fromkeys((days[0], days[-1])))}, with Java {java} and ZooKeeper {zookeeper}.",
            "",
            *_table(["", *(walked.name for walked in walks)], rows),
            "",
            "## The steps",
            "",
            *_table(["step", "what must be so", "what was run"], run),
            "",
            "## A rolling upgrade",
            "",
            *_table(["leg", "what was run"], [[leg, ran] for leg, ran in upgrade.steps.items()]),
            "",
            f"Outcome: {FAILED if upgrade.failed else PASSED}",
            "",
        )
    )


def _outcome(walked: Walked, step: str) -> str:
    return PASSED if step in walked.steps else FAILED


def _what_ran(walks: Sequence[Walked], step: str) -> str:
    """Each different sentence once, with the versions that differ from the first one's."""
    versions: dict[str, list[str]] = {}
    for walked in walks:
        if step in walked.steps:
            versions.setdefault(walked.steps[step], []).append(walked.name)
    if len(versions) == 1:
        return next(iter(versions))
    return "; ".join(f"{', '.join(names)}: {ran}" for ran, names in versions.items())


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---'] * len(header))} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main(page: Path) -> int:
    """Make the page from the records; return the exit code."""
    from tests.cluster.walk import STEPS, VERSIONS

    try:
        walks, (upgrade,) = read(VERSIONS), read([UPGRADE])
    except FileNotFoundError as error:
        sys.stderr.write(f"there is no result yet: {error.filename}; `make versions` runs all\n")
        return 1
    shown = {name: (step.__doc__ or "").splitlines()[0] for name, step in STEPS.items()}
    page.write_text(as_markdown(walks, upgrade, shown), encoding="utf-8")
    return 1 if any(walked.failed for walked in (*walks, upgrade)) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Would any test notice? Each mistake of the catalogue meets simulated worlds, and the faster tests named with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

import click
from msgspec import Struct
from rich.progress import track

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("controller", "zk_layout", "metrics", "tests", "pyproject.toml")
FAILED = 1  # pytest's exit code if tests ran and failed; any other is no verdict
HANGS_AFTER_S = 120.0
LIMIT_S = 3600


class Trial(Struct, frozen=True):
    """The worlds for a mistake; none without `seeds`."""

    seeds: int
    start: int
    is_fast_wanted: bool


class Verdict(Struct):
    """The verdict on one mistake.

    Units:
        `worlds` is how many it survived until one broke a promise; None if none did, and `unseen` may say why.
        `is_caught_fast` is None if the fast tests did not run. `took_s` is in seconds.
    """

    name: str
    unseen: str = ""
    worlds: int | None = None
    promise: str = ""
    is_caught_fast: bool | None = None
    took_s: float = 0.0


class Lived(Struct):
    """The end of `tests.mutants.live`: the world, if any, and the broken promise."""

    seed: int | None
    promise: str


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="Mistakes whose name or file contains this; may be repeated.")
@click.option("--seeds", default=200, show_default=True, help="In how many worlds a mistake may live; 0: in none.")
@click.option("--start", default=500_000, show_default=True, help="The first seed.")
@click.option("--jobs", default=1, show_default=True, help="How many mistakes are tried at once.")
@click.option("--fast/--no-fast", "is_fast_wanted", default=True, help="Whether to run the faster tests.")
@click.option("--sound/--no-sound", "must_be_sound", default=True, help="Whether to try without a mistake first.")
@click.option("--json", "is_json", is_flag=True, help="Print the verdicts as JSON lines.")
def main(
    only: tuple[str, ...],
    seeds: int,
    start: int,
    jobs: int,
    is_fast_wanted: bool,
    must_be_sound: bool,
    is_json: bool,
) -> None:
    """Make each mistake in a copy of the sources; exit with 1 if one is not noticed."""
    chosen = [m for m in MUTANTS if not only or any(part in m.name or part in m.path for part in only)]
    trial = Trial(seeds, start, is_fast_wanted)
    with copies(jobs) as free:
        if must_be_sound:
            _check_soundness(chosen, free, trial)

        def attempt(mutant: Mutant) -> Verdict:
            copy = free.get()
            try:
                return _try(mutant, copy, trial)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            verdicts = []
            results = pool.map(attempt, chosen)
            for verdict in track(results, "mutants", len(chosen), disable=not sys.stderr.isatty()):
                verdicts.append(verdict)
                click.echo(json.dumps(_plain(verdict)) if is_json else _line(verdict, seeds))
    if not is_json:
        _sum_up(verdicts, seeds)
    sys.exit(1 if any(_is_unnoticed(v, seeds) for v in verdicts) else 0)


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """So many copies of the sources."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(directory, str(number))
            copy.mkdir()
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, copy / name)
            free.put(copy)
        yield free


def _check_soundness(chosen: Sequence[Mutant], free: SimpleQueue[Path], trial: Trial) -> None:
    """Check that tests and worlds pass without a mistake, because failing ones would notice everything."""
    copy = free.get()
    try:
        if trial.is_fast_wanted and _run_tests(copy, dict.fromkeys(test for m in chosen for test in m.tests)) != 0:
            raise click.ClickException("the faster tests fail without any mistake")
        lived = _live(copy, trial)
        if lived.seed is not None:
            raise click.ClickException(f"seed {lived.seed} breaks a promise without any mistake: {lived.promise}")
    finally:
        free.put(copy)


def _try(mutant: Mutant, copy: Path, trial: Trial) -> Verdict:
    began = time.monotonic()
    path = copy / mutant.path
    before = path.read_text()
    _write(path, mutant.applied_to(before))
    verdict = Verdict(mutant.name, mutant.unseen)
    try:
        if trial.is_fast_wanted:
            verdict.is_caught_fast = all(_run_tests(copy, (test,)) == FAILED for test in mutant.tests)
        lived = _live(copy, trial)
    finally:
        _write(path, before)
    verdict.promise = lived.promise
    if lived.seed is not None:
        verdict.worlds = lived.seed - trial.start + 1
    verdict.took_s = time.monotonic() - began
    return verdict


def _write(path: Path, source: str) -> None:
    """Write a source so that Python compiles it again, which it would not with the same size and second."""
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
    path.write_text(source)


def _run_tests(copy: Path, tests: Sequence[str] | dict[str, None]) -> int:
    arguments = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    return _python(copy, *arguments).returncode


def _live(copy: Path, trial: Trial) -> Lived:
    if not trial.seeds:
        return Lived(None, "")
    lived = _python(copy, "-m", "tests.mutants.live", str(trial.start), str(trial.seeds), str(HANGS_AFTER_S))
    last = lived.stdout.rstrip().rpartition("\n")[2]
    seed, _, promise = last.partition(" ")
    if not seed.isdecimal():
        return Lived(None, f"no world was lived through: {lived.stderr.rstrip().rpartition(chr(10))[2]}")
    return Lived(int(seed) if promise else None, promise)


def _python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def _plain(verdict: Verdict) -> dict[str, object]:
    return {field: getattr(verdict, field) for field in verdict.__struct_fields__}


def _line(verdict: Verdict, seeds: int) -> str:
    seen = f"world {verdict.worlds:>3}" if verdict.worlds is not None else f"LIVES {seeds}" if seeds else ""
    fast = {True: "fast", False: "NOT FAST", None: ""}[verdict.is_caught_fast]
    why = (verdict.promise or verdict.unseen)[:90]
    return f"{verdict.name:<72} {seen:<10} {fast:<9} {verdict.took_s:4.0f} s  {why}".rstrip()


def _is_unnoticed(verdict: Verdict, seeds: int) -> bool:
    return verdict.is_caught_fast is False or bool(seeds and verdict.worlds is None and not verdict.unseen)


def _sum_up(verdicts: Sequence[Verdict], seeds: int) -> None:
    worlds = sorted(v.worlds for v in verdicts if v.worlds is not None)
    median = worlds[len(worlds) // 2] if worlds else 0
    click.echo(f"{len(worlds)} of {len(verdicts)} break a promise in a world, in the median in world {median}")
    excused = sum(v.worlds is None and bool(v.unseen) for v in verdicts) if seeds else 0
    if excused:
        click.echo(f"{excused} are for the faster tests alone: the catalogue says why no world shows them")
    fast = sum(v.is_caught_fast is True for v in verdicts)
    click.echo(f"{fast} of {len(verdicts)} are noticed by each of their faster tests")
    for verdict in verdicts:
        if _is_unnoticed(verdict, seeds):
            click.echo(f"not noticed: {_line(verdict, seeds)}")


if __name__ == "__main__":
    main()

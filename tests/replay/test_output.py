"""A replay replaces only what a replay has made, and only by a whole result."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow.fs as fs  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.files import output
from metrics.replay.files.output import InUse, NotOurs, Output

TABLES = ("events", "audit")


def written(out: Path, text: str, tables: tuple[str, ...] = TABLES) -> None:
    with Output(str(out)).aside(tables) as place:
        for name in tables:
            (Path(place) / name).mkdir()
            (Path(place) / name / "part-0.parquet").write_text(text)


def content(out: Path) -> dict[str, str]:
    found = {p.relative_to(out): p for p in out.rglob("*.parquet")}
    return {str(name): p.read_text() for name, p in found.items() if not name.parts[0].startswith("replay-")}


def of(text: str, tables: tuple[str, ...] = TABLES) -> dict[str, str]:
    return {f"{name}/part-0.parquet": text for name in tables}


@pytest.mark.parametrize("name", ["events", "notes.txt", "replay-unfinished", "replay-former", "replay.json"])
def test_a_directory_with_anything_else_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / name
    if theirs.suffix:
        theirs.write_text("{}")
    else:
        theirs.mkdir()
        (theirs / "mine").write_text("years of work")
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))

    with pytest.raises(ValueError, match=r"holds what no replay has made .*choose another directory"):
        written(tmp_path, "1")

    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises(ValueError, match="is a file"):
        Output(str(tmp_path / "out")).claim(TABLES)


def test_a_new_run_replaces_the_former_tables_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    written(out, "1")
    Output(str(out)).add("report.html", b"1")
    (out / "notes.txt").write_text("mine")

    written(out, "2", ("events",))

    assert content(out) == of("2", ("events",))
    assert sorted(p.name for p in out.iterdir()) == ["events", "notes.txt", "replay.json"]
    assert Output(str(out)).written == ("events",)


def test_a_table_of_a_persons_own_is_not_replaced_in_a_directory_of_ours(tmp_path: Path) -> None:
    written(tmp_path / "out", "1", ("events",))
    (tmp_path / "out" / "audit").mkdir()

    with pytest.raises(ValueError, match=r"\(audit\)"):
        written(tmp_path / "out", "2")

    assert content(tmp_path / "out") == of("1", ("events",))


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_run_that_fails_leaves_the_former_tables(tmp_path: Path, failure: type[BaseException]) -> None:
    out = Output(str(tmp_path / "out"))
    assert "no tables below" in out.standing
    written(tmp_path / "out", "1")

    def fail() -> None:
        with out.aside(TABLES) as place:
            (Path(place) / "events").mkdir()
            raise failure

    with pytest.raises(failure):
        fail()

    assert content(tmp_path / "out") == of("1")
    assert "those of the last whole run" in out.standing
    assert not (tmp_path / "out" / "replay-unfinished").exists()


def dying(monkeypatch: pytest.MonkeyPatch, at: int, *, in_cold_blood: bool) -> None:
    """The `at`-th move or removal of a file fails; a killed process undoes nothing, either."""
    done = 0

    def failing(real: Any) -> Any:
        def act(self: Output, *names: str) -> None:
            nonlocal done
            done += 1
            if done == at or (in_cold_blood and done > at):
                raise OSError("no space left on device")
            real(self, *names)

        return act

    for name in ("_move", "_remove", "_write"):
        monkeypatch.setattr(Output, name, failing(getattr(Output, name)))


@pytest.mark.parametrize("in_cold_blood", [False, True])
@pytest.mark.parametrize("at", range(1, 20))
@pytest.mark.parametrize("former", [True, False])
def test_wherever_a_run_dies_the_next_finds_the_former_tables_or_the_new_ones(
    tmp_path: Path, at: int, in_cold_blood: bool, former: bool
) -> None:
    out = tmp_path / "out"
    if former:
        written(out, "1")
        (out / "notes.txt").write_text("mine")
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, at, in_cold_blood=in_cold_blood)
        with suppress(OSError):
            written(out, "2", ("events", "min_isr"))

    if (out / "replay.json").exists():  # a manifest that exists is true
        assert content(out) in (of("1"), of("2", ("events", "min_isr")))
    Output(str(out)).claim(TABLES)

    assert content(out) in (of("1") if former else {}, of("2", ("events", "min_isr")))
    assert (out / "notes.txt").exists() == former
    written(out, "3")
    assert content(out) == of("3")


@pytest.mark.parametrize(
    "name", ["events/notes.txt", "replay-former/years/of/work.txt", "replay-unfinished/mine.parquet"]
)
def test_what_a_person_put_among_our_tables_is_left_alone(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    written(out, "1")
    theirs = out / name
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_text("mine")

    with pytest.raises(NotOurs, match=f"holds what no replay has made .{name}"):
        written(out, "2")
    Output(str(out)).keep("reassignment-1.json", b"{}")

    assert theirs.read_text() == "mine"
    assert content(out).items() >= of("1").items()


@pytest.mark.parametrize("name", ["../theirs", "../../theirs", "/theirs", ".", ""])
@pytest.mark.parametrize("manifest", ["replay.json", "replay-former/planned.json"])
def test_a_manifest_that_names_what_is_elsewhere_is_none(tmp_path: Path, name: str, manifest: str) -> None:
    out = tmp_path / "out"
    written(out, "1")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "part-0.parquet").write_text("mine")
    (out / "replay-former").mkdir()
    said = (
        f'{{"written":["{name}"],"made_by":"kafka-zk-controller replay"}}'
        if manifest == "replay.json"
        else f'["{name}"]'
    )
    (out / manifest).write_text(said)
    if manifest != "replay.json":
        (out / "replay.json").unlink()

    with pytest.raises(NotOurs):
        written(out, "2")

    assert (tmp_path / "theirs" / "part-0.parquet").read_text() == "mine"
    assert content(out) == of("1")


def test_two_replays_at_once_do_not_mix(tmp_path: Path) -> None:
    out = Output(str(tmp_path / "out"))
    with out.aside(TABLES) as place:
        with pytest.raises(InUse, match=r"another replay is writing into .*out"):
            written(tmp_path / "out", "2")
        with pytest.raises(InUse):
            Output(out.out).claim(TABLES)
        for name in TABLES:
            (Path(place) / name).mkdir()
            (Path(place) / name / "part-0.parquet").write_text("1")

    assert content(tmp_path / "out") == of("1")


def test_a_result_that_vanished_does_not_pass_for_a_whole_one(tmp_path: Path) -> None:
    written(tmp_path / "out", "1")

    with pytest.raises(FileNotFoundError, match="audit vanished"), Output(str(tmp_path / "out")).aside(TABLES) as place:
        (Path(place) / "events").mkdir()

    assert content(tmp_path / "out") == of("1")


@pytest.mark.parametrize("at", range(1, 20))
def test_the_way_back_beside_a_killed_run_does_not_cost_the_former_tables(tmp_path: Path, at: int) -> None:
    out = tmp_path / "out"
    written(out, "1")
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, at, in_cold_blood=True)
        with suppress(OSError):
            written(out, "2")
    Output(str(out)).keep("reassignment-1.json", b"{}")
    Output(str(out)).claim(TABLES)

    assert content(out) in (of("1"), of("2"))
    assert (out / "reassignment-1.json").exists()


def test_a_way_back_does_not_replace_another_one(tmp_path: Path) -> None:
    (tmp_path / "reassignment-1.json").write_bytes(b"mine")

    with pytest.raises(NotOurs, match=r"reassignment-1\.json says something else"):
        Output(str(tmp_path)).keep("reassignment-1.json", b"{}")

    assert (tmp_path / "reassignment-1.json").read_bytes() == b"mine"


def test_a_run_that_was_killed_while_it_wrote_its_manifest_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "replay.json.unfinished").write_text("{")

    written(tmp_path, "1")

    assert content(tmp_path) == of("1")


class ObjectStore:
    """Like a real store: moves a file by copying and deleting it, a directory never. From `dies_at` on actions fail."""

    type_name = "s3"

    def __init__(self, dies_at: int = 0) -> None:
        self._files: Any = fs.LocalFileSystem()
        self._dies_at, self._done = dies_at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def move(self, path: str, to: str) -> None:
        self._act("copy_file", path, to)
        self._act("delete_file", path)

    def delete_dir(self, path: str) -> None:
        for found in self._files.get_file_info(fs.FileSelector(path, recursive=True)):
            if found.type == fs.FileType.File:
                self._act("delete_file", found.path)
        self._act("delete_dir", path)

    def open_output_stream(self, path: str) -> Any:
        return self._act("open_output_stream", path)

    def _act(self, name: str, *paths: str) -> Any:
        self._done += 1
        if 0 < self._dies_at <= self._done:
            raise OSError("the connection was lost")
        return getattr(self._files, name)(*paths)


def in_store(monkeypatch: pytest.MonkeyPatch, dies_at: int = 0) -> None:
    store = ObjectStore(dies_at)
    monkeypatch.setattr(output, "filesystem_of", lambda path: (store, path))


def written_to_store(out: Path, text: str, tables: tuple[str, ...]) -> None:
    """Tables of two files each, and an empty one."""
    with Output(str(out)).aside(tables) as place:
        for name in tables:
            (Path(place) / name).mkdir()
            for number in range(0 if name == "damage" else 2):
                (Path(place) / name / f"part-{number}.parquet").write_text(text)


def in_two(text: str, *tables: str) -> dict[str, str]:
    return {f"{name}/part-{number}.parquet": text for name in tables for number in range(2)}


def test_an_object_store_holds_empty_tables_and_of_former_ones_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_store(monkeypatch)
    out = tmp_path / "out"
    written_to_store(out, "1", ("events", "audit", "damage"))
    assert content(out) == in_two("1", "events", "audit")
    assert (out / "damage").is_dir()

    written_to_store(out, "2", ("events", "damage"))

    assert content(out) == in_two("2", "events")
    assert sorted(p.name for p in out.iterdir()) == ["damage", "events", "replay.json"]


@pytest.mark.parametrize("at", range(1, 70))
def test_wherever_a_run_into_an_object_store_dies_the_next_finds_the_former_tables_or_the_new_ones(
    tmp_path: Path, at: int
) -> None:
    out = tmp_path / "out"
    for dies_at in (0, at, at // 2 + 1, 0):  # the second dies while it cleans up after the first
        with pytest.MonkeyPatch.context() as patch:
            in_store(patch, dies_at)
            if dies_at or not out.exists():
                with suppress(OSError):
                    written_to_store(out, "2" if dies_at else "1", ("events", "min_isr" if dies_at else "audit"))
            else:
                Output(str(out)).claim(TABLES)
        if (out / "replay.json").exists():  # a manifest that exists is true
            assert content(out) in (in_two("1", "events", "audit"), in_two("2", "events", "min_isr"))

    assert content(out) in (in_two("1", "events", "audit"), in_two("2", "events", "min_isr"))
    in_place = sorted(p.name for p in out.iterdir() if p.name != "replay.json.unfinished")
    assert in_place == sorted((*Output(str(out)).written, "replay.json"))

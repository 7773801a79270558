"""`kafka-zk-controller diagnose`: what does a stranger need to know to help?"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import urllib.error
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from controller.commands import check_cluster, handover
from controller.commands.common import CONFIG, FAILED, MISUSED, OK, as_text_or_json, fail, read_settings
from controller.commands.running import http_from_here
from controller.diagnosis.bundle import Part, pack
from controller.diagnosis.collecting import Wanted, collect, tail
from controller.diagnosis.host import files_in, host
from controller.diagnosis.reaching import broker_addresses, reach, servers_in
from controller.diagnosis.scrubbing import Scrubber
from controller.diagnosis.znodes import znodes
from controller.http import client
from controller.settings import BadSettings, Settings
from controller.settings.secrets import secret_texts
from controller.zk.bridge import Bridge

_PAGES: Final = ("/leader", "/readyz", "/livez", "/reassignments", "/metrics")
_MOST_OF_A_PAGE: Final = 4 * 1024 * 1024
_OF_DIRECTORIES: Final = ("journal.dir", "log.authorizer.file", "log.moves.file")


@click.command()
@click.option("--config", type=CONFIG, required=True, help="The replica's properties file.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As the replica was started with.")
@click.option("--url", help="The replica's HTTP port, if not http.host and http.port of its settings.")
@click.option("--http.config.file", "http_config", type=CONFIG, help="TLS and user for it, in Prometheus' format.")
@click.option("--log", "logs", multiple=True, type=CONFIG, help="A file of its log, of which the end is taken.")
@click.option("--out", type=click.Path(path_type=Path), help="The archive to write (.tar.gz). It must not exist.")
@as_text_or_json
def diagnose(  # noqa: PLR0913 (one parameter an option)
    config: Path,
    overrides: tuple[str, ...],
    url: str | None,
    http_config: Path | None,
    logs: tuple[Path, ...],
    out: Path | None,
    output: str,
) -> None:
    """Collect in one archive what is needed to find out why a replica does not do what it should.

    Versions, settings, state, metrics, the checks before a claim, the znodes that matter, reachability, the end of
    logs. Secrets are left out, and what looks like one is replaced by [hidden]; names of hosts, topics and users are
    not: look into it before you give it away. Only its owner can read it. Changes nothing; run it on the replica's
    host.

    \b
      kafka-zk-controller diagnose --config controller.properties
      journalctl -u kafka-zk-controller --since -1h > replica.log
      kafka-zk-controller diagnose --config controller.properties --log replica.log

    Exit codes: 0 the archive was written, whatever could not be found, 1 it was not, 2 usage error.
    """
    try:
        password = "" if http_config is None else client.password_in(http_config)
    except client.UnusableFile as error:
        fail(str(error), MISUSED)
    scrubber = Scrubber({*secret_texts(config, overrides, os.environ), password})
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    name = f"kafka-zk-controller-diagnosis-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    archive = out or Path(f"{name}.tar.gz")
    if os.path.lexists(archive):
        fail(f"{archive} exists, and diagnose overwrites nothing: give another --out", FAILED)
    with check_cluster.no_logs():
        parts = asyncio.run(collect(_wanted(config, overrides, (url, http_config), logs)))
    try:
        pack(archive, name, parts, scrubber.scrub)
    except OSError as error:
        fail(f"{archive} cannot be written: {error.strerror}", FAILED)
    _show(archive, parts, scrubber, as_json=output == "json")
    sys.exit(OK)


def _wanted(
    config: Path, overrides: Sequence[str], http: tuple[str | None, Path | None], logs: Sequence[Path]
) -> Iterator[Wanted]:
    settings: Settings | None = None
    problems: dict[str, object] = {}
    try:
        settings = read_settings(config, overrides)
    except BadSettings as error:
        problems = {"problems": error.problems}
    given = {key: settings.values.printable()[key] for key in _OF_DIRECTORIES} if settings is not None else {}
    directories = {key: str(Path(text).parent if "file" in key else text) for key, text in given.items() if text}
    yield Wanted("host.json", "versions and resources", _now(partial(host, directories)))
    yield Wanted("settings.json", "settings in force", _now(lambda: problems if settings is None else _shown(settings)))
    yield from _pages(settings, *http)
    if settings is not None:
        yield from _of_zookeeper(settings)
    if journal := given.get("journal.dir"):
        yield Wanted("journal.json", "files of the journal, without their content", _now(partial(files_in, journal)))
    for key, name in (("log.authorizer.file", "authorizer.log"), ("log.moves.file", "moves.log")):
        if file := given.get(key):
            yield Wanted(name, f"the end of {file}", _now(partial(tail, Path(file))))
    for number, path in enumerate(logs, 1):
        yield Wanted(f"{number}-{path.name}", f"the end of {path}", _now(partial(tail, path)))


def _now(find: Callable[[], object]) -> Callable[[], Awaitable[object]]:
    """On a thread: a file or an HTTP port may be slow."""
    return partial(asyncio.to_thread, find)


def _shown(settings: Settings) -> dict[str, object]:
    values = settings.values.printable()
    return {
        "in force": values,
        "set by the operator": sorted(settings.values.given),
        "ignored": settings.ignored,
    }


def _pages(settings: Settings | None, url: str | None, http_config: Path | None) -> Iterator[Wanted]:
    where = url
    if where is None and settings is not None and (address := http_from_here(settings)):
        where = f"{'https' if http_config is not None else 'http'}://{address}"
    if where is None:
        return
    where = (where if "://" in where else f"http://{where}").rstrip("/")
    for page in _PAGES:
        yield Wanted(f"http{page}.txt", f"{where}{page}", _now(partial(_page, f"{where}{page}", http_config)))


def _page(address: str, http_config: Path | None) -> str:
    """The page with its status: one that says why the replica is not ready has another than 200."""
    try:
        status, data = 200, client.read(address, http_config, _MOST_OF_A_PAGE)
    except urllib.error.HTTPError as error:
        with error:
            status, data = error.code, error.read(_MOST_OF_A_PAGE)
    return f"{status}\n{data.decode('utf-8', 'backslashreplace')}"


def _of_zookeeper(settings: Settings) -> Iterator[Wanted]:
    async def with_bridge(do: Callable[[Bridge], Awaitable[object]]) -> object:
        bridge = Bridge(settings.zookeeper)
        await bridge.start()
        try:
            return await do(bridge)
        finally:
            await bridge.stop()

    async def brokers(bridge: Bridge) -> object:
        return await reach(await broker_addresses(bridge))

    async def checks() -> object:
        return check_cluster.as_json_object(await check_cluster.look(settings, is_new_cluster=False))

    servers = servers_in(settings.zookeeper.connect)
    yield Wanted("zookeeper.json", "connections to ZooKeeper's servers", partial(reach, servers))
    yield Wanted("brokers.json", "connections to brokers", partial(with_bridge, brokers))
    yield Wanted("replicas.json", "who leads, and which replicas run", partial(with_bridge, handover.leadership))
    yield Wanted("znodes.json", "znodes that show how a controller stands", partial(with_bridge, znodes))
    yield Wanted("checks.json", "the checks before a claim", checks)


def _show(archive: Path, parts: Sequence[Part], scrubber: Scrubber, *, as_json: bool) -> None:
    failures = {part.name: scrubber.scrub(part.failure) for part in parts if part.failure}
    if as_json:
        found = {"file": str(archive), "parts": [part.name for part in parts], "failures": failures}
        click.echo(json.dumps(found, indent=2))
        return
    for part in parts:
        click.echo(f"{'missing' if part.failure else 'ok':<8} {part.name:<24} {failures.get(part.name) or part.what}")
    click.echo(f"{archive}: look into it before you give it away; names of hosts, topics and users are in it")

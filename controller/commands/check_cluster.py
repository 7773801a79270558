"""May this replica lead the cluster? `run --check-cluster` runs the checks and prints the findings; it changes
nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
import structlog

from controller.commands.common import still_trying
from controller.preflight.findings import Check, Finding, Gravity, Verdict
from controller.process.listener_security import NoUsers, dialer_of, listener_access
from controller.process.preflight import preflight_of
from controller.server.listener import ListenerSettings, Server
from controller.settings import Settings
from controller.zk.answers import Disconnected, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.session import Session

SOUND, UNSOUND, UNREACHABLE = 0, 1, 3
LOOK_WITHIN_S = 120.0
_MARKS = {Gravity.OK: "ok", Gravity.WARNING: "warning", Gravity.STOP: "WRONG"}


def run(settings: Settings, *, is_new_cluster: bool, as_json: bool) -> int:
    """Run the checks once and print the findings; return the exit code."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        with _no_logs():
            verdict = asyncio.run(look(settings, is_new_cluster=is_new_cluster))
    except (Disconnected, SessionEnded) as error:
        _show_unreachable(str(error), as_json=as_json)
        return UNREACHABLE
    (_show_json if as_json else _show_text)(verdict)
    return UNSOUND if verdict.stops else SOUND


@contextmanager
def _no_logs() -> Iterator[None]:
    """Silence logs: the printed findings say everything."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


async def look(settings: Settings, *, is_new_cluster: bool) -> Verdict:
    """What a process with these settings would find before its first claim. Listens while the checks run.

    Raises:
        Disconnected, SessionEnded: ZooKeeper cannot be asked, or does not answer in time.
    """
    claim = settings.claim
    bound, access_of = settings.listening.bound, listener_access(settings.listening, NoUsers())
    listeners = [
        ListenerSettings(x.listener, x.host, x.port, relays=False, access=access_of[x.listener]) for x in bound
    ]
    server = Server(claim.own_id, listeners)
    bridge = Bridge(claim.zookeeper)
    session = Session(bridge, lambda _: None, claim.own_id)
    await bridge.start(still_trying)
    try:
        taken = await _listen(server)
        own_listeners = None if taken else server
        preflight = preflight_of(settings, own_listeners, dialer_of(settings.listening), is_new_cluster=is_new_cluster)
        async with asyncio.timeout(LOOK_WITHIN_S):
            verdict = await preflight.look(bridge, lambda: session.clash(claim.registration))
        return Verdict((*verdict.findings, *taken))
    except TimeoutError:
        raise Disconnected(f"the checks of the cluster did not finish within {LOOK_WITHIN_S:g} s") from None
    finally:
        await server.close()
        await bridge.stop()


async def _listen(server: Server) -> Sequence[Finding]:
    """Listen as a replica does; return a finding if that fails."""
    try:
        await server.start()
    except OSError as error:
        hint = "stop the process that uses the port; if it is this replica, ask it: kafka-zk-controller status"
        return (Finding(Check.ADVERTISED, Gravity.STOP, f"cannot listen: {error}", hint),)
    return ()


def _show_text(verdict: Verdict) -> None:
    for finding in verdict.findings:
        click.echo(f"{_MARKS[finding.gravity]:<8} {finding.check:<20} {finding.text}")
        if finding.hint:
            click.echo(f"{'':<29} → {finding.hint}")
    if verdict.stops:
        click.echo("this replica must not lead this cluster; it would not claim it")
    elif verdict.warnings:
        click.echo("this replica may lead this cluster; see the warnings")
    else:
        click.echo("this replica may lead this cluster")


def _show_json(verdict: Verdict) -> None:
    found = [
        {"check": f.check.value, "result": f.gravity.value, "text": f.text, "hint": f.hint} for f in verdict.findings
    ]
    click.echo(json.dumps({"may_lead": not verdict.stops, "findings": found}, indent=2))


def _show_unreachable(reason: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"may_lead": False, "findings": [], "unreachable": reason}, indent=2))
    else:
        click.echo(f"error: {reason}; check zookeeper.connect", err=True)

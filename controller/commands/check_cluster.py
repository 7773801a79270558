"""May this replica lead the cluster? `run --check-cluster` runs the checks and prints the findings; it changes
nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click
import structlog

from controller.commands import running
from controller.commands.common import still_trying
from controller.commands.running import Running
from controller.core.candidacy.events import IdClash
from controller.preflight.findings import Check, Finding, Gravity, Verdict, ok, stop, warning
from controller.preflight.own_listeners import ListenersOfRunningReplica
from controller.process.listener_security import NoUsers, dialer_of, listener_access
from controller.process.preflight import preflight_of
from controller.server.listener import ListenerSettings, Server
from controller.settings import Settings
from controller.zk.answers import Disconnected, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.session import Session
from zk_layout.ids import BrokerId

SOUND, UNSOUND, UNREACHABLE = 0, 1, 3
LOOK_WITHIN_S = 120.0
_MARKS = {Gravity.OK: "ok", Gravity.WARNING: "warning", Gravity.STOP: "WRONG"}


def run(settings: Settings, *, is_new_cluster: bool, as_json: bool) -> int:
    """Run the checks once and print the findings; return the exit code."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        with no_logs():
            verdict = asyncio.run(look(settings, is_new_cluster=is_new_cluster))
    except (Disconnected, SessionEnded) as error:
        _show_unreachable(str(error), as_json=as_json)
        return UNREACHABLE
    (_show_json if as_json else _show_text)(verdict)
    return UNSOUND if verdict.stops else SOUND


@contextmanager
def no_logs() -> Iterator[None]:
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
        async with asyncio.timeout(LOOK_WITHIN_S):
            failure = await _listen(server)
            found = await running.find(bridge, settings, has_port=failure is None)
            is_here = found is not None and found.is_here

            async def clash() -> IdClash | None:
                """The running replica is this one."""
                return None if is_here else await session.clash(claim.registration)

            running_ones = ListenersOfRunningReplica() if is_here else None
            own_listeners = server if failure is None else running_ones
            dialer = dialer_of(settings.listening)
            preflight = preflight_of(settings, own_listeners, dialer, is_new_cluster=is_new_cluster)
            verdict = await preflight.look(bridge, clash)
        return Verdict(tuple(beside(verdict, found, failure, claim.own_id)))
    except TimeoutError:
        raise Disconnected(f"the checks of the cluster did not finish within {LOOK_WITHIN_S:g} s") from None
    finally:
        await server.close()
        await bridge.stop()


async def _listen(server: Server) -> OSError | None:
    """Listen as a replica does; return why that fails."""
    try:
        await server.start()
    except OSError as error:
        return error
    return None


def beside(verdict: Verdict, found: Running | None, failure: OSError | None, own_id: BrokerId) -> Iterator[Finding]:
    """The findings, as they are where a replica with this id runs: it is no error if that is this one."""
    if found is None:
        yield from verdict.findings
    else:
        is_free = (Check.BROKER_ID, Gravity.OK)
        yield from (one for one in verdict.findings if (one.check, one.gravity) != is_free)
        yield _owner(found, own_id)
    if failure is not None and not (found and found.is_here):
        hint = "stop the process that uses the port; if it is this replica, ask it: kafka-zk-controller status"
        yield stop(Check.ADVERTISED, f"cannot listen: {failure}", hint)
    elif failure is None and found and found.is_here:
        text = f"replica {own_id} runs on this host and does not listen where these settings say"
        yield warning(Check.ADVERTISED, text, "restart it to put them in force, unless it has just stopped")


def _owner(found: Running, own_id: BrokerId) -> Finding:
    if found.is_here:
        return ok(Check.BROKER_ID, f"{own_id} is the id of this replica, which runs already: {found.state}")
    hint = "give every replica a broker.id of its own that no broker has; if that one has stopped, wait until "
    text = f"{own_id} is the id of a replica of this controller at {found.place}: {found.state}"
    return stop(Check.BROKER_ID, text, f"{hint}zookeeper.session.timeout.ms has passed")


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
    click.echo(json.dumps(as_json_object(verdict), indent=2))


def as_json_object(verdict: Verdict) -> dict[str, object]:
    """The verdict for programs."""
    found = [
        {"check": f.check.value, "result": f.gravity.value, "text": f.text, "hint": f.hint} for f in verdict.findings
    ]
    return {"may_lead": not verdict.stops, "findings": found}


def _show_unreachable(reason: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"may_lead": False, "findings": [], "unreachable": reason}, indent=2))
    else:
        click.echo(f"error: {reason}; check zookeeper.connect", err=True)

"""The authorizers that brokers report decide whether clients are served, before a claim and in a term."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from controller.core.candidacy.events import Unsound, Watching
from controller.core.clients.authorization import NOT_KNOWN_YET, Withheld
from controller.settings.kinds import AUTHORIZERS
from tests.unit.preflight.world import Broker, World

ACLS, FOREIGN = AUTHORIZERS[0], "org.example.Ranger"
OURS = f"authorizer.class.name={ACLS}"
LOOKS_WITHIN_S = 11.0


def withheld(world: World) -> Withheld | None:
    return world.claimant.withheld


def test_clients_are_served_once_brokers_have_reported_that_they_have_no_authorizer() -> None:
    world = World().runs(Broker())
    assert withheld(world) == NOT_KNOWN_YET
    world.passes()
    assert withheld(world) is None


@pytest.mark.parametrize("broker", [Broker(is_mute=True), Broker(newest={}), None])
def test_clients_are_not_served_while_no_broker_answers(broker: Broker | None) -> None:
    world = World(is_new_cluster=True)
    if broker is not None:
        world.runs(broker)
    world.until(Watching if broker is None or not broker.is_mute else Unsound)
    world.goes_on(60)
    assert withheld(world) == NOT_KNOWN_YET


def test_an_unanswered_question_about_settings_lets_nobody_in() -> None:
    busy = Broker(authorizer=ACLS)
    busy.is_busy = True
    world = World().runs(busy)
    world.passes()
    world.goes_on(60)
    assert withheld(world) == NOT_KNOWN_YET

    before = len(world.emitted)
    busy.is_busy = False
    assert f"broker 1 uses the authorizer {ACLS}, and this process has none" in world.until(Unsound, before).reason


@pytest.mark.parametrize("state", ["is_busy", "is_mute"])
def test_an_authorizer_that_a_broker_has_reported_counts_until_it_answers_again(state: str) -> None:
    judging = Broker(authorizer=ACLS)
    world = World().runs(Broker(), judging)
    world.passes()
    known = withheld(world)
    assert known is not None

    setattr(judging, state, True)
    world.goes_on(120)
    assert withheld(world) == known

    world.restarts(2, Broker())
    world.goes_on(LOOKS_WITHIN_S)
    assert withheld(world) is None


def test_clients_are_not_served_where_one_broker_judges_by_what_is_not_here() -> None:
    world = World().runs(Broker(), Broker(authorizer=ACLS))
    world.passes()
    assert withheld(world) == Withheld(f"broker 2 uses the authorizer {ACLS}, and this process has none", is_known=True)

    world = World(OURS).runs(Broker(), Broker(authorizer=ACLS), Broker(authorizer=FOREIGN))
    (warning,) = world.passes().warnings
    assert (
        f"broker 3 uses the authorizer {FOREIGN}, and this process uses {ACLS}: clients are not served" in warning.text
    )
    found = withheld(world)
    assert found is not None
    assert found.is_known


@pytest.mark.parametrize("brokers", [(Broker(),), (Broker(authorizer=ACLS),), (Broker(), Broker(authorizer=ACLS))])
def test_who_judges_by_acls_serves_clients_beside_brokers_that_do_so_or_do_not_judge(brokers: tuple[Broker]) -> None:
    world = World(OURS).runs(*brokers)
    world.passes()
    assert withheld(world) is None


@pytest.mark.parametrize("grant", ["super.users=User:ann", "allow.everyone.if.no.acl.found=true"])
def test_what_needs_no_acl_here_or_there_alone_is_a_warning(grant: str) -> None:
    key, _, value = grant.partition("=")
    has = Broker(authorizer=ACLS, settings={key: value})

    (warning,) = World(OURS, grant).runs(Broker(authorizer=ACLS), has).passes().warnings
    assert f"{key} is set here, and not on broker 1" in warning.text
    (warning,) = World(OURS).runs(Broker(authorizer=ACLS), has).passes().warnings
    assert f"{key} is set on broker 2, and not here" in warning.text
    assert not World(OURS, grant).runs(has).passes().warnings


def test_the_operator_may_serve_clients_all_the_same() -> None:
    world = World("controller.preflight.tolerate=authorizer").runs(Broker(authorizer=ACLS))
    assert world.passes().warnings
    assert withheld(world) is None


def test_who_leads_refuses_clients_from_the_first_broker_on_that_judges_and_must_not_lead_after_the_last() -> None:
    world = World().runs(Broker(), Broker())
    world.passes()
    world.goes_on(120)
    assert withheld(world) is None
    before = len(world.emitted)

    with capture_logs() as logs:
        world.restarts(1, Broker(authorizer=ACLS))
        world.goes_on(LOOKS_WITHIN_S)
    errors = [line for line in logs if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["refusing clients' requests; brokers are still served"]
    assert world.claimant.warnings
    assert not [event for event in world.emitted[before:] if isinstance(event, Unsound)]

    world.restarts(2, Broker(authorizer=ACLS))
    world.goes_on(LOOKS_WITHIN_S)
    unsound = [event for event in world.emitted[before:] if isinstance(event, Unsound)]
    assert f"brokers 1, 2 use the authorizer {ACLS}, and this process has none" in unsound[-1].reason

    before = len(world.emitted)
    for number in (1, 2):
        world.restarts(number, Broker())
    world.until(Watching, before)
    assert withheld(world) is None


def test_the_brokers_last_reports_count_while_none_of_them_answers() -> None:
    world = World().runs(Broker(), Broker(authorizer=ACLS))
    world.passes()
    for broker in world.brokers.values():
        broker.is_mute = True
    world.goes_on(120)
    found = withheld(world)
    assert found is not None
    assert found.is_known

"""Mistakes about leaders and ISRs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, law, story, trap, unit

LEADER = "controller/core/elections/leader_election.py"
FIRST = "controller/core/elections/first_leader.py"
PREFERRED = "controller/core/elections/preferred_leader.py"
ON_REQUEST = "controller/core/elections/elect_leaders.py"
ELECTIONS = "controller/core/elections/duty.py"
CHANGE = "controller/core/steps/change.py"
ALTER_PARTITION = "controller/core/isr/alter_partition.py"
ISR_CHANGES = "controller/core/isr/duty.py"
VIEW = "controller/core/state/view.py"
BROKERS = "controller/core/brokers/duty.py"

MUTANTS = (
    Mutant(
        "checks the balance of leaders at the former interval once more",
        ELECTIONS,
        "            out.wake(Rebalance(), out.now + min(FIRST_REBALANCE_S, every_s))",
        "            pass",
        (unit("settings_changed"), story("settings_changed")),
        "no world changes settings during a term",
    ),
    Mutant(
        "moves leaders for balance while moves are paused",
        ELECTIONS,
        "        if self._cluster.pause is None:\n            self._balance(out)",
        "        if not changes.pause:\n            self._balance(out)",
        (unit("pause"), story("paused")),
    ),
    Mutant(
        "elects an in-sync replica that is offline",
        LEADER,
        "return tuple(r for r in state.isr if r in replicas and cluster.is_online(r, case.at))",
        "return tuple(r for r in state.isr if r in replicas)",
        (unit("election"), law("rules")),
    ),
    Mutant(
        "leaves dead followers in the ISR",
        LEADER,
        "        return _shrink(case, state, in_sync, cluster)",
        "        return None",
        (unit("election"),),
    ),
    Mutant(
        "keeps the dead in the ISR when it elects",
        LEADER,
        "cluster.controller_epoch, leader, in_sync))",
        "cluster.controller_epoch, leader))",
        (unit("election"),),
    ),
    Mutant(
        "elects uncleanly whatever the settings say",
        LEADER,
        "if case.config is not None and is_unclean_allowed(case.config, cluster.unclean_election):",
        "if case.config is not None:",
        (unit("election"),),
    ),
    Mutant(
        "elects uncleanly while a replica in sync lives whose registration cannot be read",
        LEADER,
        "if candidate is not None and not any(cluster.is_hidden(r) for r in state.isr):",
        "if candidate is not None:",
        (unit("election"), trap("hidden_znodes")),
    ),
    Mutant(
        "replaces a leader whose registration cannot be read by a replica that lacks records",
        VIEW,
        "is_there = broker in self.shutting_down or self.is_hidden(broker)",
        "is_there = broker in self.shutting_down",
        (unit("election"), trap("hidden_znodes")),
    ),
    Mutant(
        "does not notice that a broker has gone whose registration could not be read",
        BROKERS,
        "        for broker in former.keys() - self._hidden.keys():\n            self._look_at_hosted(broker)\n",
        "",
        (trap("hidden_znodes"),),
    ),
    Mutant(
        "forgets who was in sync when the last of them goes",
        LEADER,
        "NO_LEADER, state.isr or (state.leader,)))",
        "NO_LEADER, (state.leader,)))",
        (unit("election"),),
    ),
    Mutant(
        "elects uncleanly a replica that is being added and never was in sync",
        LEADER,
        "if replica in case.assignment.adding and replica not in cluster.caught_up.get(case.at, ()):",
        "if replica in case.assignment.adding and replica in case.assignment.removing:",
        (unit("election"),),
    ),
    Mutant(
        "elects uncleanly a replica that was sent a deletion",
        LEADER,
        "return cluster.is_online(replica, case.at) and cluster.may_have_records(replica, case.at)",
        "return cluster.is_online(replica, case.at)",
        (unit("election"), story("unclean_election_during_a_move")),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "stops a leader that shuts down though no one can follow it",
        LEADER,
        "    if cluster.still_serves(state.leader, case.at):\n"
        "        return _shrink(case, state, _serving(case, state, cluster), cluster)\n    return _unclean",
        "    return _unclean",
        (unit("election"),),
    ),
    Mutant(
        "leaves the dead in the ISR of a leader that shuts down and cannot be followed",
        LEADER,
        "        return _shrink(case, state, _serving(case, state, cluster), cluster)",
        "        return None",
        (unit("election"), law("rules")),
        unseen="it takes a leader that writes its ISR itself, and one seed in thousands",
    ),
    Mutant(
        "prefers a replica that is not in sync",
        PREFERRED,
        "or preferred not in state.isr or not cluster.is_online(preferred, case.at):",
        "or not cluster.is_online(preferred, case.at):",
        (unit("election"),),
    ),
    Mutant(
        "prefers a replica that is offline",
        PREFERRED,
        "or preferred not in state.isr or not cluster.is_online(preferred, case.at):",
        "or preferred not in state.isr:",
        (unit("election"),),
    ),
    Mutant(
        "elects uncleanly on request although the leader serves",
        ON_REQUEST,
        "    if case.state is not None and cluster.is_online(case.state.leader, case.at):\n        return NOT_NEEDED\n",
        "",
        (unit("topic_requests"),),
    ),
    Mutant(
        "begins a partition with replicas that are offline",
        FIRST,
        "online = tuple(r for r in case.assignment.replicas if cluster.is_online(r, case.at))",
        "online = case.assignment.replicas",
        (unit("election"),),
    ),
    Mutant(
        "forgets what waited for a topic's settings",
        ELECTIONS,
        "self._shared.agenda.add(name, concerned)",
        "del concerned",
        (story("unclean_election"),),
    ),
    Mutant(
        "elects within the same leader epoch",
        CHANGE,
        "LeaderEpoch(state.leader_epoch + 1),",
        "state.leader_epoch,",
        (unit("election"),),
    ),
    Mutant(
        "swaps controller epochs: writes that of the former controller",
        CHANGE,
        "LeaderEpoch(state.leader_epoch + 1),\n        controller_epoch,",
        "LeaderEpoch(state.leader_epoch + 1),\n        state.controller_epoch,",
        (unit("election"),),
    ),
    Mutant(
        "takes ISR changes from a former life of a broker",
        ALTER_PARTITION,
        "if held is None or held.epoch != request.broker_epoch:",
        "if held is None:",
        (story("isr_changes_by_request"),),
    ),
    Mutant(
        "lets a dead replica into the ISR",
        ALTER_PARTITION,
        "if not all(r in replicas and cluster.is_online(r, at) for r in proposal.isr):",
        "if not all(r in replicas for r in proposal.isr):",
        (trap("tickets"),),
    ),
    Mutant(
        "takes an ISR that was asked for before a follower's broker died",
        BROKERS,
        "            self._former_lives.outdate(broker, name, numbers, since, followed)\n",
        "",
        (trap("former_lives"),),
        unseen="a late request, a lost log and the same leader epoch do not meet within 30 worlds",
    ),
    Mutant(
        "takes an ISR that its leader asked a former controller for",
        BROKERS,
        " or self._lags(held):",
        ":",
        (trap("former_lives"),),
        unseen="a late request, a lost log and the same leader epoch do not meet within 30 worlds",
    ),
    Mutant(
        "lets a replica of a former life into the ISR before its leader has heard of a new epoch",
        ALTER_PARTITION,
        "if joining and (at in cluster.unannounced or",
        "if joining and (",
        (trap("former_lives"),),
        unseen="the new epoch is on its way for milliseconds",
    ),
    Mutant(
        "lets a leaving replica back into the ISR",
        ALTER_PARTITION,
        "replicas = in_force(held.assignment, held.state).replicas",
        "replicas = held.assignment.replicas",
        (unit("ends_of_moves"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "raises the leader epoch with the ISR",
        ALTER_PARTITION,
        "        request.broker,\n        state.leader_epoch,",
        "        request.broker,\n        state.leader_epoch + 1,",
        (story("isr_changes_by_request"),),
    ),
    Mutant(
        "grants an ISR that was proposed for an older one",
        ALTER_PARTITION,
        "    if proposal.partition_epoch < held.epoch:\n        return ErrorCode.INVALID_UPDATE_VERSION\n",
        "",
        (story("isr_changes_by_request"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "ignores ISRs that leaders write themselves",
        ISR_CHANGES,
        "out.read(to_read)",
        "pass",
        (story("isr_changes_by_notification"),),
    ),
    Mutant(
        "forgets to watch the states of partitions that move",
        ISR_CHANGES,
        "out.read(to_watch, watch=True)",
        "out.read(to_watch)",
        (story("move_followed_by_notification"),),
    ),
    Mutant(
        "forgets that settings are fresh for a partition when another needs them",
        ELECTIONS,
        "fresh_configs.setdefault(name, {}).update(concerned)",
        "fresh_configs[name] = dict(concerned)",
        (unit("turns_are_bounded"),),
        unseen="a topic must have more leaderless partitions than a turn decides",
    ),
)

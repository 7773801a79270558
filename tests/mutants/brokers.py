"""Mistakes about which brokers are there, what each is sent, and what answers mean."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, story, trap, unit

ADMISSION = "controller/core/brokers/admission.py"
BROKERS = "controller/core/brokers/duty.py"
REFUSALS = "controller/core/brokers/refusals.py"
SHUTDOWN = "controller/core/brokers/controlled_shutdown.py"
FULL_UPDATES = "controller/core/announcing/full_updates.py"
BATCH = "controller/core/announcing/batch.py"
DRAFT = "controller/core/steps/draft.py"
MEMORY = "controller/core/brokers/memory.py"
PASSES = "controller/core/brokers/passes.py"
TOUCHING = "controller/core/brokers/touching.py"
SENDING = "controller/core/announcing/sending.py"
WAITS = "controller/core/scheduling/waits.py"
VIEW = "controller/core/state/view.py"

ORDER = "in the end all is written, in whichever order"

MUTANTS = (
    Mutant(
        "readmits a broker at once",
        ADMISSION,
        "if seen is None or broker in self._departing:",
        "if seen is None:",
        (unit("held_up"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "takes a bounce for nothing",
        ADMISSION,
        "(seen is None or (held.epoch != seen.epoch and broker != self._cluster.own_id)):",
        "seen is None:",
        (trap("weaknesses"), story("broker_bounces")),
    ),
    Mutant(
        "goes on excluding a broker that has shut down and is back",
        ADMISSION,
        "        memory.shutting_down.pop(broker, None)\n",
        "",
        (story("controlled_shutdown"),),
    ),
    Mutant(
        "ignores that a log directory has failed",
        BROKERS,
        "self._memory.fail_replica(at, report.broker)",
        "pass",
        (story("log_directory_fails"),),
    ),
    Mutant(
        "does not ask a broker what its failed log directory held",
        BROKERS,
        "self._fresh[event.broker] = None",
        "pass",
        (story("log_directory_fails"),),
    ),
    Mutant(
        "does not repeat what a broker has refused",
        REFUSALS,
        "out.wake(TellAllAgain(broker), out.now + self._patience_s(broker, out.now))",
        "pass",
        (trap("tickets"), story("refused_by_a_broker")),
    ),
    Mutant(
        "lets a broker go that still leads",
        SHUTDOWN,
        "yield TopicPartition(topic, number)",
        "yield from ()",
        (story("controlled_shutdown"),),
    ),
    Mutant(
        "sends nothing to a broker that has come",
        BROKERS,
        "self._full_updates.join(fresh)",
        "pass",
        (unit("turns_are_bounded"),),
    ),
    Mutant(
        "goes through what is placed on controllers' ids once for each broker that comes",
        BROKERS,
        "self._passes.begin_once(broker, self._look_at)",
        "self._passes.begin(broker, self._look_at)",
        (unit("hosted_passes"),),
        unseen="many partitions on such ids, small turns, and all brokers at once: one world in thousands",
    ),
    Mutant(
        "deals with a broker as with a controller once a controller has its id",
        ADMISSION,
        "            self._lose(broker)\n",
        "            if seen is not None:\n                self._note_kind(broker, seen)\n"
        "            self._lose(broker)\n",
        (unit("controllers_are_no_brokers"),),
        unseen="in worlds every id stays a broker's or a controller's",
    ),
    Mutant(
        "leaves what was placed on an id before a controller got it",
        BROKERS,
        "elif transition is Transition.APPEARED and not changes.is_beginning:",
        "elif transition is Transition.CHANGED and not changes.is_beginning:",
        (unit("controllers_are_no_brokers"),),
        unseen="when faults stop, brokers come, and such ids are looked at for each of them",
    ),
    Mutant(
        "leaves out what a broker was given while its pass waited for its turn",
        PASSES,
        "waiting.topics = self._topics_of(broker)",
        "pass",
        (unit("hosted_passes"),),
        unseen="a topic has to be placed on such an id between the arrivals of two brokers, while a pass waits",
    ),
    Mutant(
        "sends a broker half of a topic",
        FULL_UPDATES,
        "len(self._names) + (1 if self._begun else 0)",
        "len(self._names)",
        (unit("full_updates"),),
    ),
    Mutant(
        "forgets a topic that was half-read when a broker came",
        FULL_UPDATES,
        "self._held_back.setdefault(name, {}).update(brokers)",
        "pass",
        (unit("half_read"),),
    ),
    Mutant(
        "forgets after a fail-over that a leader may not know of its move",
        BROKERS,
        "            if held.assignment.is_moving or at.partition in topic.deletions or",
        "            if at.partition in topic.deletions or",
        (unit("first_sight"),),
    ),
    Mutant(
        "heeds what a broker said in a former life",
        SENDING,
        "return held is not None and held.epoch == answer.broker_epoch",
        "return held is not None",
        (unit("log_directories"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "announces to no broker that a broker has died",
        BATCH,
        "            if not commands and is_news:",
        "            if not commands and is_news and self._parts:",
        (trap("tickets"),),
    ),
    Mutant(
        "sends a broker that lacks a topic what has changed of it",
        BATCH,
        "            if seen.topic not in whole and not self._round.is_incomplete_at(seen.topic, broker):\n",
        "            if seen.topic not in whole:\n",
        (unit("full_updates"),),
    ),
    Mutant(
        "sends a broker that has come its leaders before the live brokers",
        BATCH,
        "        if is_full_update:\n            who_lives",
        "        if is_full_update and not brokers_changed:\n            who_lives",
        (trap("protocol"),),
    ),
    Mutant(
        "does not repeat to followers who leads when their leader has come",
        BATCH,
        "if (seen.leader in fresh or broker in fresh) and self._cluster.is_registered(broker):",
        "if broker in fresh and self._cluster.is_registered(broker):",
        (story("log_directory_fails"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "sends every deletion that was decided",
        SENDING,
        "not stop.is_deletion or _may_delete(broker, stop, cluster)",
        "True",
        (unit("owed_deletions"),),
        unseen="the second lock: what decides about deletions holds them back already",
    ),
    Mutant(
        "has replicas deleted before their leader knows",
        BATCH,
        "or at in self._cluster.unannounced or topic.is_queued_for_deletion:",
        "or topic.is_queued_for_deletion:",
        (story("crash_at_every_stage"),),
    ),
    Mutant(
        "waits for ever until a broker's former life is dealt with",
        WAITS,
        "not w.is_open and (not w.topics or w.until <= out.now)]",
        "not w.is_open and not w.topics]",
        (unit("held_up"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "takes other controllers for brokers",
        VIEW,
        "return broker in self.brokers and broker not in self.controllers",
        "return broker in self.brokers",
        (unit("controllers_are_no_brokers"),),
    ),
    Mutant(
        "counts a replica in a failed log directory as online",
        VIEW,
        "return not self.offline_replicas or broker not in self.offline_replicas.get(of, ())",
        "return True",
        (unit("log_directories"), story("log_directory_fails")),
    ),
    Mutant(
        "takes what it sees for the first time for just created",
        BROKERS,
        "(made := memory.take_made(at, held)):",
        "(made := memory.take_made(at, held) or (frozenset() if before else frozenset(held.assignment.replicas))):",
        (unit("first_sight"),),
    ),
    Mutant(
        "announces a former replica as new though its log may be there",
        MEMORY,
        "made.replicas - self.logs_left.get(at, NO_BROKERS) if",
        "made.replicas if",
        (unit("first_sight"),),
    ),
    Mutant(
        "takes a write of someone else for its own",
        MEMORY,
        "made is not None and made.written in (held.state, held.assignment)",
        "made is not None",
        (unit("first_sight"),),
        unseen="no one else writes a first state while a controller of ours leads",
    ),
    Mutant(
        "says that a partition is new whose state someone has removed",
        DRAFT,
        "() if held.has_znode else (assignment or held.assignment).replicas",
        "(assignment or held.assignment).replicas",
        (unit("first_sight"),),
        unseen="no one removes a state",
    ),
    Mutant(
        "says that a replica is new whose deletion is owed",
        DRAFT,
        "(*held.assignment.replicas, *in_sync, *self.topic.deletions.get(number, ()))",
        "(*held.assignment.replicas, *in_sync)",
        (unit("first_sight"),),
    ),
    Mutant(
        "says that a replica in sync is new that no assignment lists",
        DRAFT,
        "(*held.assignment.replicas, *in_sync, *self.topic.deletions.get(number, ()))",
        "(*held.assignment.replicas, *self.topic.deletions.get(number, ()))",
        (unit("foreign_writes"),),
    ),
    Mutant(
        "thinks that a leader knows of a move that can be read only now",
        BROKERS,
        "is_initial or before is None or not former.assignment.replicas",
        "is_initial or not former.assignment.replicas",
        (unit("first_sight"),),
    ),
    Mutant(
        "elects no leaders before it makes ISRs smaller",
        BROKERS,
        "self._passes.begin_ahead(broker, elect)",
        "pass",
        (unit("lost_leaders"),),
        unseen=ORDER,
    ),
    Mutant(
        "lets what one lost broker followed come before what the next one led",
        PASSES,
        "self._ahead.append(",
        "self._left.append(",
        (unit("lost_leaders"), unit("hosted_passes")),
        unseen=ORDER,
    ),
    Mutant(
        "announces twice what a lost broker hosted",
        TOUCHING,
        "numbers.pop(number, None)",
        "pass",
        (unit("lost_leaders"),),
        unseen="brokers may hear of a partition again",
    ),
    Mutant(
        "never announces what a lost broker hosted while ZooKeeper does not take it",
        TOUCHING,
        "            self.add(name, numbers)\n",
        "            pass\n",
        (unit("lost_leaders"),),
        unseen="when faults stop, ZooKeeper takes it",
    ),
)

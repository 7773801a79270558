"""Mistakes about what is known, what is looked at in a turn, and what becomes of a transaction."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, law, story, trap, unit, zk

FACTS = "zk_layout/facts.py"
TOPIC_FACTS = "controller/core/state/topic_facts.py"
CLUSTER = "controller/core/state/cluster.py"
PLACEMENT = "controller/core/state/placement.py"
EVENT_QUEUE = "controller/core/turn/event_queue.py"
DELETION = "controller/core/topics/deletion.py"
AGENDA = "controller/core/scheduling/agenda.py"
COUNTS = "controller/core/counts.py"
MACHINE = "controller/core/machine.py"
STEPS = "controller/core/steps/steps.py"
QUARANTINES = "controller/core/steps/quarantined_topics.py"
TRANSACTIONS = "controller/core/transactions/owner.py"
PACKING = "controller/core/transactions/packing.py"
LOSSES = "controller/core/transactions/losses.py"
LIVES = "controller/zk/lives.py"

MUTANTS = (
    Mutant(
        "decides all that is asked about a topic in one step",
        STEPS,
        "most = EVERY if self._quarantines.of(name).is_limited else self._shared.settings.budget.requested",
        "most = EVERY",
        (unit("turns_are_bounded"),),
        unseen="only turns become long, and worlds measure none",
    ),
    Mutant(
        "takes a partition for sound in whose ISR the dead are",
        STEPS,
        "        if replica not in brokers or replica not in replicas:\n            return False\n",
        "        pass\n",
        (law("first_telling"),),
        unseen="lived through 200 worlds: leaders remove the dead from their ISRs themselves",
    ),
    Mutant(
        "does not count a partition that lacks in-sync replicas when a term begins",
        COUNTS,
        "return is_led and len(state.isr) >= len(replicas)",
        "return is_led",
        (law("first_telling"),),
        unseen="no world looks at figures",
    ),
    Mutant(
        "forgets what is left of the requests about a topic",
        STEPS,
        "if self._shared.settings.budget.requested < waiting > self._shared.requests.waiting(name) > 0:",
        "if False:",
        (unit("turns_are_bounded"),),
        unseen="no world asks for more about one topic than a turn takes",
    ),
    Mutant(
        "announces all partitions of a topic that goes at once",
        DELETION,
        "numbers, now.left = now.left[:most], now.left[most:]",
        "numbers, now.left = now.left, []",
        (unit("turns_are_bounded"),),
        unseen="only turns become long, and worlds measure none",
    ),
    Mutant(
        "counts a redirected move for the brokers of its former target",
        PLACEMENT,
        "self._forget_move(name, number, before)",
        "pass",
        (law("folding"),),
        unseen="only tests read the index so far",
    ),
    Mutant(
        "applies an older fact",
        FACTS,
        "return fact.as_of > held_as_of",
        "return True",
        (law("folding"),),
    ),
    Mutant(
        "believes an absence that a creation has overtaken",
        FACTS,
        "return fact.is_present and not is_held_present",
        "return False",
        (law("folding"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "counts the state of an earlier topic",
        TOPIC_FACTS,
        "if view is not None and fact.as_of < view.czxid:",
        "if view is not None and fact.as_of < NEVER:",
        (law("folding"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "takes a topic that was created again for the same",
        TOPIC_FACTS,
        "if view is not None and view.czxid != stat.czxid:",
        "if view is not None and view.czxid > stat.czxid:",
        (law("folding"), trap("weaknesses")),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "owes what an earlier topic of the name owed",
        TOPIC_FACTS,
        "is_ours = is_same_id or (value is not None and value.topic_id is None and record.owed_as_of >= view.czxid)",
        "is_ours = value is not None",
        (unit("owed_deletions"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "counts a replica where it has left",
        PLACEMENT,
        "discard(self.hosted[broker], name, number)",
        "pass",
        (law("folding"),),
    ),
    Mutant(
        "announces a topic of which it has read a part",
        CLUSTER,
        "taken.withhold(name, until=left)",
        "pass",
        (unit("half_read"),),
    ),
    Mutant(
        "forgets the rest of a large event",
        EVENT_QUEUE,
        "if self._given == len(self._facts):",
        "if self._given:",
        (unit("turns_are_bounded"),),
    ),
    Mutant(
        "follows facts apart that were read together",
        MACHINE,
        " and not self._queue.is_within_one and (is_cause",
        " and (is_cause",
        (unit("turns_are_bounded"),),
        unseen="no world reads more at once than a turn takes",
    ),
    Mutant(
        "sleeps while events are left",
        MACHINE,
        "elif self._queue.has_more or (self._is_loaded",
        "elif (self._is_loaded",
        (unit("turns_are_bounded"),),
    ),
    Mutant(
        "forgets the rest of a large topic",
        AGENDA,
        "queue[topic] = dict(islice(numbers.items(), self._budget, None))",
        "pass",
        (unit("agenda"),),
    ),
    Mutant(
        "decides first about what has leaders",
        AGENDA,
        "return self._urgent, self._leaderless, self._normal",
        "return self._urgent, self._normal, self._leaderless",
        (unit("agenda"), unit("lost_leaders")),
        unseen="in the end all is decided, in whichever order",
    ),
    Mutant(
        "puts refused elections behind everything",
        STEPS,
        "agenda.add_leaderless(step.name, self._leaderless(step))",
        "pass",
        (unit("lost_leaders"),),
        unseen="in the end all is decided, in whichever order",
    ),
    Mutant(
        "forgets a retry",
        TRANSACTIONS,
        "        out.wake(TryAgain(subject), out.now + wait)\n",
        "",
        (unit("transactions"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "does not read what a transaction has conflicted with",
        TRANSACTIONS,
        "        if addresses:\n            out.read(addresses)\n",
        "",
        (unit("transactions"),),
    ),
    Mutant(
        "decides again before all was read again",
        TRANSACTIONS,
        "if step.outstanding or step.unread or self._under_way",
        "if step.outstanding or self._under_way",
        (unit("transactions"),),
    ),
    Mutant(
        "takes a lost answer for a yes",
        MACHINE,
        "self._transactions.failed(commit, None, out)",
        "self._transactions.committed(commit)",
        (story("unknown_outcomes"),),
    ),
    Mutant(
        "sends the parts of a decision without waiting for the first",
        TRANSACTIONS,
        "pieces = [piece for piece in step.later if piece.rank == lowest]",
        "pieces = [piece for piece in step.later if piece.rank >= lowest]",
        (unit("packing"), unit("topic_deletions")),
    ),
    Mutant(
        "parts what belongs together",
        PACKING,
        "core = [(writes, together)] if is_one else self._cut(in_order)",
        "core = list(self._cut(in_order)) if is_one else self._cut(in_order)",
        (unit("packing"),),
        unseen="no world has so much to write together",
    ),
    Mutant(
        "does not see by one znode of a lost answer what the others must say",
        TRANSACTIONS,
        "return fact.stat.version == version and fact.value == write.value",
        "return fact.stat.version > version",
        (unit("half_read"),),
    ),
    Mutant(
        "takes what someone else has written for its own",
        TRANSACTIONS,
        "return fact.stat.version == version and fact.value == write.value",
        "return fact.stat.version == version",
        (unit("half_read"),),
        unseen="hardly anybody else writes what a controller does",
    ),
    Mutant(
        "forgets what it could not read after a lost answer",
        TRANSACTIONS,
        "self._doubts.setdefault(address, []).append(doubt)  # it may become readable before the others are",
        "pass",
        (unit("half_read"),),
        unseen="two znodes that may not be read, and a lost answer: one world in thousands",
    ),
    Mutant(
        "takes the version it has replaced for the one that is there",
        TRANSACTIONS,
        "ZnodeVersion(write.expected + 1)",
        "ZnodeVersion(write.expected)",
        (unit("accepted_writes"),),
    ),
    Mutant(
        "packs transactions without counting bytes",
        PACKING,
        "is_full = size + piece.size_bytes > most_bytes or count + len(piece.operations) > self._most_writes",
        "is_full = count + len(piece.operations) > self._most_writes",
        (unit("packing"),),
    ),
    Mutant(
        "forgets the requests of a step that was refused",
        STEPS,
        "                requests.put_back(left)\n",
        "",
        (unit("steps"),),
    ),
    Mutant(
        "forgets a topic that waits for the legacy znode",
        STEPS,
        "                self._shared.agenda.add(name, numbers, is_urgent=True)",
        "                del name, numbers",
        (story("legacy_znode_is_busy"),),
    ),
    Mutant(
        "forgets which partitions are overdue when a step looks at others",
        STEPS,
        "unasked = {n: None for n in self._overdue.pop(name, ()) if n not in step.numbers}",
        "unasked = self._overdue.pop(name, {}) and {}",
        (unit("held_up"),),
        unseen="worlds noticed once in 1,850",
    ),
    Mutant(
        "tries a request again at once whose legacy entry may not be removed",
        STEPS,
        "requested, shared = dict.fromkeys(numbers), address.path",
        "pass",
        (story("legacy_entry_cannot_be_evicted"),),
        unseen="worlds noticed once in 400",
    ),
    Mutant(
        "never retries what is in quarantine",
        QUARANTINES,
        "out.wake(TryTopicAgain(name), out.now + doubled_s(held.times, FIRST_WAIT_S, LONGEST_WAIT_S))",
        "pass",
        (unit("containment"),),
    ),
    Mutant(
        "does not step down when it is fenced",
        MACHINE,
        'out.step_down("another controller has raised the controller epoch")',
        "pass",
        (unit("term_ends"),),
        unseen="lived through 200 worlds: ZooKeeper refuses every write, and the session sees the other's claim",
    ),
    Mutant(
        "does not look whether what it has created is still there",
        MACHINE,
        "                if to_watch:",
        "                if to_watch and out.is_over:",
        (story("reassignment_znode_deleted_at_once"),),
    ),
    Mutant(
        "takes the answer to a small write for a sign that a large one fits",
        LOSSES,
        "if size_bytes >= ALIKE_SHARE * last_bytes:",
        "if size_bytes:",
        (unit("losses"),),
    ),
    Mutant(
        "sends what depends on a life before its folder's creations are answered",
        LIVES,
        "return self._in_flight[folder] > 0 and folder not in self._unguarded",
        "return False",
        (zk("lives"),),
        unseen="its guard counts one too few, and it is tried again",
    ),
)

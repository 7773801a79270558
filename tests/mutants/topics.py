"""Mistakes about topics as a whole, and about producer ids."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, law, story, trap, unit

TOPIC_FACTS = "controller/core/state/topic_facts.py"
DELETION = "controller/core/topics/deletion.py"
TOPICS = "controller/core/topics/duty.py"
OUTCOMES = "controller/core/clients/outcomes.py"
DRAFT = "controller/core/steps/draft.py"
INVARIANTS = "controller/core/steps/invariants.py"
PRODUCER_IDS = "controller/core/single_znodes/producer_ids.py"
QUOTAS = "controller/core/quotas/mutations.py"
BUCKETS = "controller/core/quotas/buckets.py"
LEVELS = "controller/core/state/quotas.py"
UNLIMITED = "no world has quotas"

MUTANTS = (
    Mutant(
        "obeys an old mark: deletes a topic for a request that is older than it",
        TOPIC_FACTS,
        "is_meant = mark is not None and (mark.is_hidden or mark.czxid > view.czxid)",
        "is_meant = mark is not None",
        (unit("deletion_requests"),),
    ),
    Mutant(
        "leads a topic whose request to be deleted it may not read",
        TOPIC_FACTS,
        "is_meant = mark is not None and (mark.is_hidden or mark.czxid > view.czxid)",
        "is_meant = mark is not None and mark.czxid > view.czxid",
        (trap("hidden_znodes"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "says that a topic does not exist which it may not read",
        TOPICS,
        "if not is_being_deleted and self._cluster.is_unreadable(address):",
        "if not is_being_deleted and self._cluster.is_unreadable(address) and item is None:",
        (trap("hidden_znodes"),),
        unseen="found by seed 10700174 only: a leader must ask for its ISR while its topic is hidden, and lead on",
    ),
    Mutant(
        "removes a topic before its logs are deleted",
        DELETION,
        "if topic.is_malformed or is_owed_unknown or self._unconfirmed(deletion):",
        "if topic.is_malformed or is_owed_unknown:",
        (unit("topic_deletions"),),
    ),
    Mutant(
        "removes a topic while it cannot be read who has former replicas",
        DELETION,
        "if topic.is_malformed or is_owed_unknown or self._unconfirmed(deletion):",
        "if topic.is_malformed or self._unconfirmed(deletion):",
        (unit("owed_deletions"),),
        unseen="the account of what is owed is hidden in one world of a thousand",
    ),
    Mutant(
        "takes a refused deletion for a confirmed one",
        DELETION,
        "answers = deletion.refused if is_refused else deletion.confirmed",
        "answers = deletion.confirmed",
        (unit("topic_deletions"),),
    ),
    Mutant(
        "does not ask a broker again that was restarted during a deletion",
        DELETION,
        "for answers in (deletion.asked, deletion.confirmed, deletion.refused):",
        "for answers in (deletion.confirmed, deletion.refused):",
        (unit("topic_deletions"),),
    ),
    Mutant(
        "does not look into a removal that was refused",
        DELETION,
        "deletion.needs_survey, deletion.found = True, None",
        "deletion.found = None",
        (unit("topic_deletions"),),
    ),
    Mutant(
        "lets a deletion be withdrawn that has begun",
        DELETION,
        "has_begun = former is not None and not is_another and any(former.asked.values())",
        "has_begun = False",
        (unit("deletion_requests"),),
        unseen="no one in a world takes a request to delete a topic back",
    ),
    Mutant(
        "gives a topic another id when an old tool has dropped it",
        TOPICS,
        "if not step.planned.restore_id() and self._shared.settings.assigns_topic_ids and topic.topic_id is None:",
        "if self._shared.settings.assigns_topic_ids and (topic.topic_id is None or topic.has_lost_id):",
        (story("topic_id_lost"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "answers that a topic is there before it is led",
        OUTCOMES,
        "if self._is_leaderless(topic, number):",
        "if False:",
        (story("topics_created_by_request"),),
    ),
    Mutant(
        "drops the id of a topic that it writes",
        DRAFT,
        "topic = Topic(assignments, self._topic_id or self.topic.topic_id)",
        "topic = Topic(assignments, self._topic_id)",
        (story("reassign_one_partition"),),
    ),
    Mutant(
        "drops the partitions of a topic that do not move",
        DRAFT,
        "            if held.assignment.replicas\n        }",
        "            if n in self._assignments\n        }",
        (story("cancel_and_set_some"),),
    ),
    Mutant(
        "writes what breaks an invariant",
        INVARIANTS,
        "    wrong = refused(before, after)\n    if wrong:",
        "    wrong = refused(before, after)\n    if not why:",
        (unit("invariants"),),
        unseen="another mistake must come first",
    ),
    Mutant(
        "refuses to put right bit by bit what others left broken",
        INVARIANTS,
        "caused = (text for invariant, text in broken.items() if invariant not in found)",
        "caused = iter(broken.values())",
        (unit("invariants"),),
        unseen="no one writes broken states",
    ),
    Mutant(
        "writes states over whatever is there",
        DRAFT,
        "yield Set(address, state, ZnodeVersion(held.epoch))",
        "yield Set(address, state, ZnodeVersion(-1))",
        (story("conflicts"),),
    ),
    Mutant(
        "writes topics over whatever is there",
        DRAFT,
        "yield Set(TopicAddress(self.topic.name), topic, self.topic.version)",
        "yield Set(TopicAddress(self.topic.name), topic, ZnodeVersion(-1))",
        (trap("weaknesses"),),
    ),
    Mutant(
        "writes the first states of a topic without their parent",
        DRAFT,
        "if self.topic.has_partitions_znode or not is_any_new:",
        "if self.topic.has_partitions_znode or is_any_new:",
        (story("topic_created"),),
    ),
    Mutant(
        "gives the last producer id twice",
        PRODUCER_IDS,
        "first = last + 1",
        "first = last",
        (unit("producer_ids"),),
    ),
    Mutant(
        "begins again where the producer ids cannot be read",
        PRODUCER_IDS,
        'return _refusal(f"{PATH} cannot be read; repair it, or write the last allocated block into it")',
        "first = 0",
        (unit("producer_ids"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "gives producer ids that ZooKeeper has not accepted",
        PRODUCER_IDS,
        "if isinstance(outcome, Accepted) and isinstance(block, ProducerIdBlock):",
        "if isinstance(block, ProducerIdBlock):",
        (unit("producer_ids"),),
    ),
    Mutant(
        "counts what a client changes as often as it is decided",
        QUOTAS,
        "if held is None or part in held.charged:",
        "if held is None:",
        (unit("mutation_quotas"),),
        unseen=UNLIMITED,
    ),
    Mutant(
        "lets a client wait that gets an error where it has to",
        QUOTAS,
        "if left < 0 and (is_refused or not held.is_strict):",
        "if left < 0:",
        (unit("mutation_quotas"), story("topic_quotas")),
        unseen=UNLIMITED,
    ),
    Mutant(
        "refuses what old clients ask for beyond their quota",
        QUOTAS,
        "is_refused = held.is_strict and left < 0",
        "is_refused = left < 0",
        (unit("mutation_quotas"), story("topic_quotas")),
        unseen=UNLIMITED,
    ),
    Mutant(
        "lets a client wait for as long as if it had been answered at once",
        QUOTAS,
        "max(0, held.throttle_ms - (_ms(now) - held.as_of_ms))",
        "held.throttle_ms",
        (unit("mutation_quotas"),),
        unseen=UNLIMITED,
    ),
    Mutant(
        "limits all users together by the quota of each",
        LEVELS,
        "return user, ANY",
        "return of_user, ANY",
        (unit("mutation_quotas"),),
        unseen=UNLIMITED,
    ),
    Mutant(
        "prefers a default user's client to a user",
        LEVELS,
        "if QuotaEntity(of_user, None) in self._rates:",
        "if QuotaEntity(of_user, None) in self._rates and of_user == DEFAULT:",
        (unit("mutation_quotas"), law("quotas")),
        unseen=UNLIMITED,
    ),
    Mutant(
        "forgets those that owe most",
        BUCKETS,
        "kept = sorted(waits, key=lambda key: waits[key])",
        "kept = sorted(waits, key=lambda key: -waits[key])",
        (unit("mutation_quotas"),),
        unseen=UNLIMITED,
    ),
)

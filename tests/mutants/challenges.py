"""Mistakes of a standby that challenges a silent leader, and of a leader that answers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, unit, zk

CHALLENGER = "controller/core/candidacy/challenger.py"
CHALLENGED = "controller/core/candidacy/challenged.py"
ANSWERING = "controller/zk/answering.py"
CHALLENGING = "controller/zk/challenging.py"
SESSION = "controller/zk/session.py"
CONTACT = "controller/zk/contact.py"
PULSE = "controller/process/leader_pulse.py"
WATCH = "controller/process/leader_watch.py"
WATCHING = "tests/unit/process/test_leader_watch.py"
BROKER = "controller/connections/broker.py"
RARE = "few worlds challenge leaders"

MUTANTS = (
    Mutant(
        "challenges a leader at the first missing sign of life",
        CHALLENGER,
        "        if self._is_doubtful or now - self._unheard_since >= LASTING_S:",
        "        if now >= self._unheard_since:",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "lets the time pass while ZooKeeper is slow",
        CHALLENGER,
        "        if now - due > self._timeout_s / PARTS:",
        "        if now - due > self._timeout_s * PARTS * 100:",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "replaces a leader without asking ZooKeeper once more when the time is over",
        CHALLENGER,
        "if asked_at >= deadline and",
        "if now >= deadline - self._timeout_s / PARTS and",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "keeps its challenge though the leader gives a sign of life",
        CHALLENGER,
        "now + SHORTEST_PAUSE_S)\n        if self._stage is _Stage.WAITING:",
        "now + SHORTEST_PAUSE_S)\n        if self._stage is _Stage.MAKING:",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "takes a process that was started again for the leader that has died",
        CHALLENGER,
        "        self._is_doubtful |= is_reopened and",
        "        self._is_doubtful |= not is_reopened and self._is_doubtful and",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "waits for a missing answer of a leader that has hung up",
        CHALLENGER,
        "            self._is_doubtful = self._has_hung_up = True\n            self._challenge_now(now)\n",
        "            self._is_doubtful = self._has_hung_up = True\n",
        (unit("challenger"), WATCHING),
        unseen=RARE,
    ),
    Mutant(
        "challenges a leader twice for one lost connection",
        CHALLENGER,
        "is_reopened and not self._has_hung_up and",
        "is_reopened and",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "never pauses longer for a leader whose connections do not last",
        CHALLENGER,
        "        if not is_reopened:\n            self._pause_s, self",
        "        if self._suspect:\n            self._pause_s, self",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "goes on pausing for a minute though the leader gives signs of life again",
        CHALLENGER,
        "min(self._not_before, now + SHORTEST_PAUSE_S)",
        "self._not_before",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "challenges the next leader because the last one has hung up",
        WATCH,
        "suspect is not None and suspect == self._election.suspect:",
        "suspect is not None:",
        (WATCHING,),
        unseen=RARE,
    ),
    Mutant(
        "asks a leader that hangs up each time without a pause",
        WATCH,
        "            missing += 1\n            await asyncio.sleep(SOON_S if missing < MANY else EVERY_S)",
        "            missing += 1\n            await asyncio.sleep(SOON_S / 10)",
        (WATCHING,),
        unseen=RARE,
    ),
    Mutant(
        "notices a leader's end only when it asks again",
        BROKER,
        "                await self._stream.ended()\n        if not self.is_ended:",
        "                await asyncio.sleep(time_s)\n        if not self.is_ended:",
        ("tests/unit/process/test_leader_pulse.py", "tests/unit/connections/test_broker.py"),
        unseen="worlds have no sockets",
    ),
    Mutant(
        "challenges a leader that answers again and again",
        CHALLENGER,
        "        self._not_before = now + self._pause_s",
        "        self._not_before = now",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "is as impatient after a replacement for nothing as before",
        CHALLENGER,
        "self._patience = min(2 * before, MOST_PATIENCE)",
        "self._patience = before",
        (unit("challenger"),),
        unseen=RARE,
    ),
    Mutant(
        "suspects native controllers",
        CHALLENGER,
        "not isinstance(holder, ControllerClaim) or not holder.is_ours or",
        "not isinstance(holder, ControllerClaim) or",
        (unit("challenger"), unit("candidacy_challenges")),
        unseen=RARE,
    ),
    Mutant(
        "replaces the next leader because of a challenge of the last",
        CHALLENGED,
        "return self.unanswered is not None and self.unanswered.epoch == seen.epoch",
        "return self.unanswered is not None",
        (unit("candidacy_challenges"),),
        unseen=RARE,
    ),
    Mutant(
        "claims a second time for the same challenge",
        "controller/core/candidacy/candidacy.py",
        "            self.challenges.unanswered = None\n",
        "",
        (unit("candidacy_challenges"),),
        unseen=RARE,
    ),
    Mutant(
        "answers the challenge of another's term",
        ANSWERING,
        "            protocol.Check(full(ControllerEpochAddress.path), self._fence),\n",
        "            protocol.Check(full(ControllerEpochAddress.path), ZnodeVersion(-1)),\n",
        (zk("challenging"),),
        unseen=RARE,
    ),
    Mutant(
        "answers only the first challenge",
        ANSWERING,
        "                self._answer()\n            self._look()",
        "                self._answer()",
        (zk("challenging"),),
        unseen=RARE,
    ),
    Mutant(
        "challenges a leader whose release does not answer",
        CHALLENGING,
        "return None if shown.answers_challenges else",
        "return None if shown else",
        (zk("challenging"),),
        unseen="all replicas of a world have one release",
    ),
    Mutant(
        "believes what another session says of the leader",
        CHALLENGING,
        "if replica is None or replica.stat.owner != holder.stat.owner or",
        "if replica is None or",
        (zk("challenging"),),
        unseen="replicas of a world write only their own znodes",
    ),
    Mutant(
        "passes for a leader that lives though ZooKeeper does not answer it",
        CONTACT,
        "self._asked is bridge and now - self._asked_at > LOST_S",
        "self._asked is bridge and now - self._asked_at > 100 * LOST_S",
        (zk("contact"),),
        unseen=RARE,
    ),
    Mutant(
        "gives no sign of life while its connection moves to another server",
        CONTACT,
        "self._asked is bridge and now - self._asked_at > LOST_S",
        "self._asked is bridge and now > self._asked_at",
        (zk("contact"),),
        unseen=RARE,
    ),
    Mutant(
        "takes an offer of nothing for a sign of life",
        PULSE,
        "        if not offered:",
        "        if offered is None:",
        ("tests/unit/process/test_leader_pulse.py",),
        unseen="worlds have no sockets",
    ),
    Mutant(
        "leaves its challenge where it is answered just when it is withdrawn",
        CHALLENGING,
        "        if reply.code != protocol.BAD_VERSION:  # it has not been answered just now\n            return",
        "        return",
        (zk("challenging"),),
        unseen=RARE,
    ),
    Mutant(
        "replaces a leader that has answered",
        SESSION,
        "removal = protocol.Delete(self._bridge.full(ChallengeAddress.path), UNANSWERED)",
        "removal = protocol.Delete(self._bridge.full(ChallengeAddress.path), ZnodeVersion(-1))",
        (zk("challenging"),),
        unseen=RARE,
    ),
    Mutant(
        "replaces a leader that came after the challenge",
        SESSION,
        "if view.epoch is None or view.epoch.stat.version != unanswered.epoch_version:",
        "if view.epoch is None:",
        (zk("challenging"),),
        unseen=RARE,
    ),
)

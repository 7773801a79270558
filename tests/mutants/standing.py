"""Mistakes of a process that reads and writes ZooKeeper, and stands for election there."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, law, reading, story, unit, zk

CANDIDACY = "controller/core/candidacy/candidacy.py"
WRITER = "controller/zk/writer.py"
LIVES = "controller/zk/lives.py"
READER = "controller/zk/reader.py"
BRIDGE = "controller/zk/bridge.py"
SESSION = "controller/zk/session.py"
STANDBY = "controller/following/standby.py"
STATE = "controller/core/state/cluster.py"

_READ = "                async with self._reading:\n                    await self._round()\n"
STANDING_BY = "tests/unit/following/test_standby.py"

MUTANTS = (
    Mutant(
        "rules on though another does",
        CANDIDACY,
        "if seen.epoch >= self._epoch:",
        "if seen.is_mine:",
        (unit("candidacy"),),
    ),
    Mutant(
        "rules on while ZooKeeper is silent",
        CANDIDACY,
        "            self._go_blind(SILENT, now)",
        "            self._known.lose(SILENT)",
        (unit("candidacy"),),
    ),
    Mutant(
        "claims a cluster that was released",
        CANDIDACY,
        "is_fit and not seen.is_released",
        "is_fit",
        (unit("candidacy"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "carries out a switchover while moves are paused",
        CANDIDACY,
        "if seen.is_named or (seen.is_wanted and seen.pause is None):",
        "if seen.is_named or seen.is_wanted:",
        (unit("candidacy"), law("candidacy")),
        unseen="worlds do not look at who asked for a claim",
    ),
    Mutant(
        "does not see a pause that it may not read",
        "controller/zk/inspection.py",
        "        return BY_HAND\n    if node is None:",
        "        return None\n    if node is None:",
        ("tests/unit/zk/test_paused.py",),
        unseen="only the log and the status say what a session sees of a pause",
    ),
    Mutant(
        "begins a term though the session of its claim was lost",
        CANDIDACY,
        "if self._is_session_new:",
        "if self._is_session_new and self.holder is not None:",
        (unit("candidacy"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "leads below the epochs that a KRaft controller has left in partitions",
        "controller/core/turn/surpassing.py",
        "if written.highest <= own:",
        "if written.highest <= own or own:",
        (unit("surpassing"), story("partitions_carry_a_higher_epoch"), "tests/simulation/test_rolled_back.py"),
        unseen="no world has had a KRaft controller",
    ),
    Mutant(
        "gives /controller up to claim a higher epoch",
        CANDIDACY,
        "self._go(Phase.STANDBY, Why.SURPASSED, reason)\n            self._orders.append(orders.Renew())",
        "self._go(Phase.STANDBY, Why.SURPASSED, reason)\n            self._orders.append(orders.Abandon())",
        (unit("candidacy"),),
        unseen="no world has had a KRaft controller",
    ),
    Mutant(
        "leaves a cluster that is released to a standby",
        CANDIDACY,
        "is_for_natives = self._unsound is not None or (self.holder is not None and self.holder.is_released)",
        "is_for_natives = self._unsound is not None and self.holder is None",
        (unit("candidacy"),),
        unseen="a standby claims no cluster that is released",
    ),
    Mutant(
        "names a successor though another leads already",
        "controller/zk/handing_over.py",
        "protocol.Check(bridge.full(_EPOCH.path), fence),",
        "protocol.Check(bridge.full(_EPOCH.path), ZnodeVersion(-1)),",
        (zk("handing_over"),),
        unseen="the replica that is named only claims over replicas of ours",
    ),
    Mutant(
        "does not wait for its successor",
        "controller/zk/handing_over.py",
        "            await has_gone.wait()\n",
        "            has_gone.set()\n",
        (zk("handing_over"), "tests/simulation/test_planned_stop.py"),
        unseen="no promise of the worlds is about a vacancy",
    ),
    Mutant(
        "skips the fence",
        WRITER,
        "self._fence = protocol.Check(bridge.full(_EPOCH_PATH), fence_version)",
        "self._fence = protocol.Check(bridge.full(_EPOCH_PATH), ZnodeVersion(-1))",
        (zk("writer"),),
    ),
    Mutant(
        "sends what ZooKeeper never takes",
        WRITER,
        "if request.size_bytes > self._max_request_bytes:",
        "if request.size_bytes > self._max_request_bytes and self.is_fenced:",
        (zk("writer"),),
        unseen="lived through 200 worlds",
    ),
    Mutant(
        "blames the first write for what another has met",
        WRITER,
        "write = commit.operations[index - 1].write",
        "write = commit.operations[0].write",
        (zk("writer"),),
    ),
    Mutant(
        "takes a request that was made again for the one before",
        LIVES,
        "if folder in self._unguarded:",
        "if folder in self._unguarded or self._counted:",
        (zk("lives"),),
    ),
    Mutant(
        "deletes by its version alone what it could not count",
        LIVES,
        "elif self._blind[folder] < BLIND_ATTEMPTS:",
        "elif self._blind[folder] < 0:",
        (zk("lives"),),
    ),
    Mutant(
        "sends what is about another znode of that name than the one it has read",
        WRITER,
        "return life is not None and not lives.is_same(write.address.path, life)",
        "return life is not None and life < 0",
        (zk("lives"),),
    ),
    Mutant(
        "forgets a watch: hears of the first change of a folder only",
        READER,
        "watch=parent in self._watched.parents)",
        "watch=not self._is_loaded)",
        (zk("changes_while_reading"),),
    ),
    Mutant(
        "forgets to watch topics and registrations",
        READER,
        "watch=parent in self._watched.families)",
        "watch=False)",
        (reading("topics_that_come_change_and_go_are_told_with_their_states"),),
    ),
    Mutant(
        "does not notice what changes while it reads",
        READER,
        "            self._is_marked.clear()\n            try:\n" + _READ,
        "            try:\n" + _READ + "                self._is_marked.clear()\n",
        (reading("znodes_changing_while_they_are_loaded_are_not_missed"),),
    ),
    Mutant(
        "reads a lone znode before it watches it",
        READER,
        "        _, found = await asyncio.gather(self._watch(path), read_one(self._bridge, path))\n",
        "        found = await read_one(self._bridge, path)\n        await self._watch(path)\n",
        (zk("changes_while_reading"),),
    ),
    Mutant(
        "does not read the states of a topic that was created again",
        READER,
        "known = ()  # another topic of the same name",
        "pass",
        (reading("a_topic_deleted_and_created_again_is_told_as_new_with_all_its_states"),),
    ),
    Mutant(
        "does not read the states of partitions that were added",
        READER,
        "for number in fact.value.partitions if number not in known]",
        "for number in fact.value.partitions if not known]",
        (reading("topics_that_come_change_and_go_are_told_with_their_states"),),
    ),
    Mutant(
        "loses its watches with the connection",
        BRIDGE,
        "        self._is_connected.set()\n        self._restore_watches()\n",
        "        self._is_connected.set()\n",
        (zk("changes_while_reading"),),
    ),
    Mutant(
        "watches from now on after a lost connection",
        BRIDGE,
        "        since = self._restore_since\n        if since is None:",
        "        since = None if self._restore_since is None else self.seen_zxid\n        if since is None:",
        (zk("changes_while_reading"),),
    ),
    Mutant(
        "claims an epoch that another has claimed meanwhile",
        SESSION,
        "controller.encode_epoch(epoch), view.epoch.stat.version),",
        "controller.encode_epoch(epoch), -1),",
        (zk("claims"),),
    ),
    Mutant(
        "believes whatever server it finds when it comes back",
        BRIDGE,
        '        self._waiting.appendleft(_Call(self, Sync(self.full("/")), lambda _: None))\n',
        "",
        (zk("reconnecting"),),
    ),
    Mutant(
        "takes an epoch that someone else has raised for the one it claimed",
        SESSION,
        "if not is_ours or holder.stat.czxid != view.epoch.stat.mzxid:",
        "if not is_ours:",
        (zk("claims"),),
    ),
    Mutant(
        "gives up the claim of the replica that has taken over meanwhile",
        SESSION,
        "                    protocol.Check(self._bridge.full(_EPOCH.path), fence),\n",
        "                    protocol.Check(self._bridge.full(_EPOCH.path), -1),\n",
        (zk("claims"),),
    ),
    Mutant(
        "does not read again what changed just before its claim, having stood by",
        STANDBY,
        "await self.reader.load(self.states.stop)",
        "await self.reader.load()",
        (STANDING_BY,),
    ),
    Mutant(
        "does not await the reads of its standby",
        READER,
        "        async with self._reading:\n            if self.has_ended:",
        "        if self._reading:\n            if self.has_ended:",
        (STANDING_BY,),
        unseen="reads that are under way at a claim are rare, and over before the rest is read",
    ),
    Mutant(
        "stands by with states that changed before they were watched",
        STANDBY,
        "await self.states.begin(since)",
        "await self.states.begin(self._bridge.seen_zxid)",
        (STANDING_BY,),
        unseen="few changes come while a standby begins",
    ),
    Mutant(
        "tells brokers what became of topics while it stood by",
        STATE,
        "        changes.gone_topics.clear()\n",
        "",
        (STANDING_BY,),
        unseen="a standby drops changes; only a topic deleted at the claim is left",
    ),
    Mutant(
        "begins with what it may no longer read, as it was",
        STATE,
        "                self.topics.unread(address.topic)\n",
        "                pass\n",
        (STANDING_BY,),
        unseen="rights are seldom taken where a standby is told of a change",
    ),
)

"""How does a whole run work: set up, strike after strike, and judge?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from controller.connections.broker import Broken
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import TopicsCreated
from controller.core.messages.requests import CreateTopics, NewTopic
from controller.demo.waiting import wait_for
from controller.lab.errors import LabError
from tests.chaos.churn import REPLICATION_FACTOR, Churn
from tests.chaos.load import Load, LoadSettings
from tests.chaos.recovery import await_recovery
from tests.chaos.schedule import Strike
from tests.chaos.stage import Stage, StageSettings
from tests.chaos.striking import Hits, Impossible
from tests.chaos.verdict import Result, Struck, rows
from tests.equipment.any_request import ask
from zk_layout.ids import TopicName

# Two of three must have a record before it is acknowledged, as is usual in production.
_MIN_INSYNC = "2"
_SETS_UP_WITHIN_S = 90.0


class PlaySettings(Struct, frozen=True):
    """The settings of a run.

    Units:
        `recovers_within_s` counts from when everything is healed.

    Shape:
        `seed` also determines the moves, creations and deletions.
    """

    stage: StageSettings = StageSettings()
    load: LoadSettings = LoadSettings()
    seed: int = 1
    recovers_within_s: float = 120.0


def play(
    settings: PlaySettings,
    strikes: Iterable[Strike],
    *,
    until: Callable[[float], bool],
    directory: Path,
    tell: Callable[[str], None],
) -> Result:
    """Strike until `until` is true for the seconds since the first record, or the cluster does not recover.

    Raises:
        LabError: the stage cannot be set up.
    """
    with Stage(settings.stage, directory) as stage:
        tell(f"three ZooKeeper servers, {len(stage.brokers)} brokers and {len(stage.controllers)} replicas are up")
        load = Load(stage.bootstrap_servers, settings.load)
        _create_topics(stage, settings.load)
        churn = Churn(stage, load.partitions, settings.seed)
        game = _Game(settings, stage, load, churn, tell)
        return game.play(strikes, until)


class _Game:
    """One run on a running stage."""

    def __init__(
        self, settings: PlaySettings, stage: Stage, load: Load, churn: Churn, tell: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._stage = stage
        self._load = load
        self._churn = churn
        self._tell = tell

    def play(self, strikes: Iterable[Strike], until: Callable[[float], bool]) -> Result:
        self._load.start()
        self._churn.start()
        struck: list[Struck] = []
        for strike in strikes:
            if until(self._now()):
                break
            struck.append(self._struck(strike))
            self._tell(self._line(struck[-1]))
            if struck[-1].missing:
                break
        self._churn.stop()
        self._load.stop()
        return self._result(struck)

    def _struck(self, strike: Strike) -> Struck:
        time.sleep(strike.calm_s)
        began, finished = self._now(), self._churn.moves["finished"]
        try:
            hits = Hits(self._stage, strike)
        except Impossible as error:
            return Struck(strike.number, strike.name, (), began, began, began, skipped=str(error))
        try:
            hits.strike()
            time.sleep(strike.hold_s)
            ended = hits.heal()
            healed = self._now()
            self._churn.rest()
            recovery = await_recovery(self._stage, self._load, self._churn, self._settings.recovers_within_s)
        except LabError as error:
            now = self._now()
            return Struck(strike.number, strike.name, hits.victims, began, now, now, missing=str(error))
        self._churn.go_on()
        over = self._now()
        return Struck(
            number=strike.number,
            name=strike.name,
            victims=hits.victims,
            began=began,
            healed=healed,
            ended=over,
            silence_s=self._silences(began, over),
            recovered_s=recovery.seconds,
            moves_finished=self._churn.moves["finished"] - finished,
            missing=recovery.missing,
            restarted=(*ended, *recovery.restarted),
        )

    def _silences(self, began: float, ended: float) -> dict[str, float]:
        since, until = self._load.began + began, self._load.began + ended
        return {
            f"{topic}-{p}": round(silences.longest_s(since, until), 3)
            for (topic, p), silences in self._load.silences.items()
        }

    def _result(self, struck: list[Struck]) -> Result:
        self._tell("reading everything once more")
        seconds = self._now()
        judgement = self._load.judge()
        return Result(
            contender=self._settings.stage.contender,
            kafka=self._settings.stage.kafka,
            seed=self._settings.seed,
            seconds=round(seconds, 1),
            rate=self._settings.load.rate,
            strikes=tuple(struck),
            rows=rows(struck, judgement),
            judgement=judgement,
            moves=dict(self._churn.moves),
            topics=dict(self._churn.topics),
            trouble=(*self._load.trouble, *self._churn.trouble),
        )

    def _line(self, strike: Struck) -> str:
        head = f"{strike.began / 60:6.1f} min  {strike.number:3}  {strike.name}"
        if strike.skipped:
            return f"{head}: skipped, {strike.skipped}"
        if strike.missing:
            return f"{head} ({', '.join(strike.victims)}): NOT RECOVERED: {strike.missing}"
        again = f", restarted {', '.join(strike.restarted)}" if strike.restarted else ""
        return (
            f"{head} ({', '.join(strike.victims) or 'none'}): held {strike.healed - strike.began:.1f} s, "
            f"silence up to {max(strike.silence_s.values(), default=0.0):.1f} s, recovered in {strike.recovered_s} s"
            f"{again}; {self._load.acknowledged:,} records acknowledged, {strike.moves_finished} moves finished"
        )

    def _now(self) -> float:
        return round(time.monotonic() - self._load.began, 3)


def _create_topics(stage: Stage, settings: LoadSettings) -> None:
    configs = (("min.insync.replicas", _MIN_INSYNC),)
    names = (settings.plain_topic, settings.idempotent_topic)

    def are_there() -> bool:
        leader = stage.leader()
        if leader is None or (stage.controllers and leader not in stage.controllers):
            return False
        topics = tuple(
            NewTopic(TopicName(name), settings.partitions, REPLICATION_FACTOR, configs=configs) for name in names
        )
        try:
            answer = ask(leader.address, CreateTopics(topics), version=4)
        except Broken:
            return False
        assert isinstance(answer, TopicsCreated)
        return {result.error for result in answer.results} <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}

    wait_for(are_there, "topics to write to", timeout_s=_SETS_UP_WITHIN_S, every_s=1.0)

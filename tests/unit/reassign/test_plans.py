"""Files that people write by hand: each error is reported with its place, before any request to a cluster."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.reassign.plans import (
    Plan,
    Replica,
    as_plan_json,
    demand_executable,
    read_brokers,
    read_plan,
    read_topics,
)
from controller.reassign.refusals import MISUSED, Unusable
from zk_layout.ids import TopicPartition


def read(text: str) -> Plan:
    plan = read_plan(text.encode(), "moves.json")
    demand_executable(plan, "moves.json")
    return plan


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"version":1,\n "partitions":[}', "moves.json, line 2, column 16: The input string is not a valid JSON"),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1],"weight":2147483648}]}',
            "Expected `int` <= 2147483647 - at `partitions\\[0\\].weight`",
        ),
        ('{"version":1,', "moves.json, line 1, column 14: The input string is not a valid JSON"),
        ("", "moves.json, line 1, column 1"),
        ("[]", "moves.json: Expected `object`, got `array`"),
        ('{"version":2}', "Not supported version field value 2"),
        ("{}", "Partition reassignment list cannot be empty"),
        (
            '{"partitions":[{"topic":"a","replicas":[1]}]}',
            "missing required field `partition` - at `partitions\\[0\\]`",
        ),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1,"x"]}]}', r"`partitions\[0\].replicas\[1\]`"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[]}]}', "Partition replica list cannot be empty: a-0"),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[2]}]}',
            "duplicate topic partitions: a-0",
        ),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1,2,1]},{"topic":"b","partition":1,"replicas":[3,3]}]}',
            "duplicate entries: a-0 contains multiple entries for 1. b-1 contains multiple entries for 3",
        ),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any"]}]}',
            r"Size of replicas list \[1, 2\] is different from size of log dirs list \[any\] for partition a-0",
        ),
    ],
)
def test_a_bad_plan_is_refused_with_what_and_where(text: str, reason: str) -> None:
    with pytest.raises(Unusable, match=reason) as refused:
        read(text)

    assert refused.value.exit_code == MISUSED


def test_a_byte_order_mark_and_what_follows_the_first_value_are_passed_over() -> None:
    plan = '{"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}'
    topics = '{"topics":[{"topic":"a"}]}'

    assert read(f"\ufeff{plan}\n}}\nthank you").targets == {TopicPartition("a", 0): (1,)}
    assert read_topics(f"\ufeff{topics}".encode(), "topics.json") == ("a",)
    with pytest.raises(Unusable, match="line 1, column 18: Expected `str`, got `int`"):
        read('\ufeff {"partitions": [{"topic":1,"partition":0,"replicas":[1]}]}')


def test_the_whole_output_of_generate_is_refused_with_what_to_keep() -> None:
    plan = '{"version":1,"partitions":[]}'
    whole = f"Current partition replica assignment\n{plan}\n\nProposed partition reassignment configuration\n{plan}\n"

    with pytest.raises(
        Unusable, match=r"moves.json, line 4, column 1: the whole output of --generate; keep only the JSON"
    ):
        read(whole)


def test_every_mistake_of_a_file_is_named_with_its_place() -> None:
    text = """{"partitions": [
  {"topic": "a", "partition": "0", "replicas": [1]},
  {"topic": "a", "partition": 1, "replicas": [1]},
  {"topic": "a", "replicas": [1]}, {"topic": "a", "partition": 3, "replicas": [1, null]}
]}"""

    with pytest.raises(Unusable) as refused:
        read(text)

    assert str(refused.value).splitlines() == [
        "moves.json, line 2, column 3: Expected `int`, got `str` - at `partitions[0].partition`",
        "moves.json, line 4, column 3: Object missing required field `partition` - at `partitions[2]`",
        "moves.json, line 4, column 36: Expected `int`, got `null` - at `partitions[3].replicas[1]`",
    ]


def test_of_very_many_mistakes_the_first_are_named() -> None:
    text = json.dumps({"partitions": [{"topic": "a", "partition": number} for number in range(1000)]})

    with pytest.raises(Unusable) as refused:
        read(text)

    assert len(str(refused.value).splitlines()) == 21
    assert str(refused.value).endswith("... and 980 more")


def test_bytes_that_are_no_utf_8_are_named_by_their_place() -> None:
    with pytest.raises(Unusable, match=r"moves.json, line 2, column 25: not UTF-8"):
        read_plan(b'{\n"partitions":[{"topic":"\xff","partition":0,"replicas":[1]}]}', "moves.json")


def test_only_replicas_with_a_directory_of_their_own_are_moved_between_directories() -> None:
    plan = read('{"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","/disk2"]}]}')

    assert plan.directories == {Replica(2, "a", 0): "/disk2"}


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text("ab-.", min_size=1), st.integers(0, 9)),
        st.lists(st.integers(0, 9), min_size=1, unique=True).map(tuple),
        min_size=1,
    )
)
def test_what_is_written_for_the_way_back_can_be_read(assignments: dict[TopicPartition, tuple[int, ...]]) -> None:
    text = as_plan_json(assignments)

    assert read(text).targets == assignments
    assert [TopicPartition(p["topic"], p["partition"]) for p in json.loads(text)["partitions"]] == sorted(assignments)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"topics":[{"topic":"a"},{"topic":"a"}]}', "duplicate entries: a"),
        ("{}", "no topic to move is named"),
        ('{"topics":["a"]}', r"Expected `object`, got `str` - at `topics\[0\]`"),
    ],
)
def test_a_bad_list_of_topics_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        read_topics(text.encode(), "topics.json")


@pytest.mark.parametrize(
    ("text", "reason"), [("1,1,2", "duplicate entries: 1"), ("1;2", "not a list of broker ids"), (",", "not a list")]
)
def test_a_bad_list_of_brokers_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        read_brokers(text)

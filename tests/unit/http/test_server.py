"""What a client sees of a process over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading

import msgspec
import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controller.http import limits
from controller.http.limits import AllowedHosts
from controller.http.server import Exporter
from metrics.measures import BY_NAME, MEASURES
from metrics.recorder import CREATED_SERIES, Recorder
from tests.unit.http.serving import LEADING, LOADING, STANDBY, Process, get, serving


def test_prometheus_reads_what_was_recorded() -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.recorder.record("offline_partitions", 3)
            served.recorder.record("zookeeper_transactions", 2, ("committed",))
            served.recorder.record("turn_seconds", 0.002)
            answer = await asyncio.to_thread(get, f"{served.url}/metrics")

        lines = answer.text.splitlines()
        assert answer.code == 200
        assert answer.content_type.startswith("text/plain")
        assert "kafka_zk_controller_offline_partitions 3.0" in lines
        assert 'kafka_zk_controller_zookeeper_transactions_total{outcome="committed"} 2.0' in lines
        assert 'kafka_zk_controller_turn_seconds_bucket{le="0.0025"} 1.0' in lines
        assert "# HELP kafka_zk_controller_offline_partitions Partitions without a live leader." in lines

    asyncio.run(scenario())


def test_openmetrics_is_given_to_who_asks_for_it() -> None:
    async def scenario() -> None:
        async with serving() as served:
            asked = "application/openmetrics-text; version=1.0.0"
            answer = await asyncio.to_thread(lambda: get(f"{served.url}/metrics", Accept=asked))

        assert answer.content_type.startswith("application/openmetrics-text")
        assert answer.text.endswith("# EOF\n")

    asyncio.run(scenario())


def test_kafkas_own_name_shows_the_same_value() -> None:
    recorder = Recorder()

    recorder.record("is_leader", 1)
    recorder.record("offline_partitions", 4)

    assert recorder.registry.get_sample_value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert recorder.registry.get_sample_value("kafka_controller_kafkacontroller_offlinepartitionscount") == 4


@pytest.mark.parametrize("ending", ["_total", "persec"])
def test_an_unclean_election_is_counted_where_published_dashboards_look(ending: str) -> None:
    recorder, alias = Recorder(), f"kafka_controller_controllerstats_uncleanleaderelections{ending}"
    assert recorder.registry.get_sample_value(alias) == 0

    recorder.record("unclean_elections", 2)
    recorder.record("unclean_elections")

    assert recorder.registry.get_sample_value(alias) == 3


def test_the_process_itself_is_measured() -> None:
    recorder = Recorder()

    assert (recorder.registry.get_sample_value("process_cpu_seconds_total") or 0) > 0
    assert (recorder.registry.get_sample_value("process_resident_memory_bytes") or 0) > 0
    assert (recorder.registry.get_sample_value("process_start_time_seconds") or 0) > 0


@pytest.mark.parametrize(("wanted", "is_shown"), [(None, False), ("true", False), ("false", True)])
def test_the_series_created_are_shown_only_on_request(wanted: str | None, is_shown: bool) -> None:
    """In a process of its own: the library reads the variable once."""
    script = (
        "from metrics.recorder import Recorder; from metrics.exposition import exposition; recorder = Recorder(); "
        "recorder.expect('notices', [('a',)]); "
        "print(*(exposition(recorder.registry, accept)[0].decode() for accept in ('', 'application/openmetrics-text')))"
    )
    environment = {name: value for name, value in os.environ.items() if name != CREATED_SERIES}
    environment |= {} if wanted is None else {CREATED_SERIES: wanted}

    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )

    assert "notices_total" in found.stdout
    assert ("_created" in found.stdout) is is_shown


@pytest.mark.parametrize("name", [measure.name for measure in MEASURES])
def test_every_measure_can_be_recorded_and_read_back(name: str) -> None:
    labels = tuple(f"some {label}" for label in BY_NAME[name].labels)
    recorder = Recorder()

    recorder.record(name, 1, labels)

    assert recorder.value(name, labels) == 1


def test_a_measure_that_does_not_exist_cannot_be_recorded() -> None:
    with pytest.raises(KeyError):
        Recorder().record("happiness")


def test_a_measure_is_recorded_with_its_labels_or_not_at_all() -> None:
    with pytest.raises(ValueError, match="label"):
        Recorder().record("requests", 1, ("Metadata (3)",))


def test_threads_lose_nothing_of_each_other() -> None:
    recorder = Recorder()

    def work() -> None:
        for _ in range(1000):
            recorder.record("zookeeper_znodes_read", 2)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert recorder.value("zookeeper_znodes_read") == 16_000


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (LEADING, 200, "active: loaded in 0.42 s\n"),
        (STANDBY, 200, "standby: broker 3 holds /controller\n"),
        (LOADING, 503, "loading: won the election\n"),
        (
            msgspec.structs.replace(LEADING, is_paused=True, paused_by="ann@host (new disks)"),
            200,
            "active: loaded in 0.42 s\n"
            "paused: moves are paused by ann@host (new disks); `kafka-zk-controller resume` ends that\n",
        ),
        (
            msgspec.structs.replace(LEADING, held_up=("no move begins that copies: broker 3 is away",)),
            200,
            "active: loaded in 0.42 s\nheld up: no move begins that copies: broker 3 is away\n",
        ),
        (
            msgspec.structs.replace(LEADING, set_aside=("/brokers/topics/a: no permission",)),
            200,
            "active: loaded in 0.42 s\nset aside: /brokers/topics/a: no permission\n",
        ),
    ],
)
def test_who_leads_or_stands_by_is_ready_and_who_loads_is_not(status: object, code: int, text: str) -> None:
    async def scenario() -> None:
        async with serving() as served:
            served.process.now = status  # type: ignore[assignment]  # a parameter of pytest has no type
            answer = await asyncio.to_thread(get, f"{served.url}/readyz")

        assert (answer.code, answer.text) == (code, text)

    asyncio.run(scenario())


def test_every_replica_knows_who_leads() -> None:
    async def scenario() -> None:
        async with serving(STANDBY) as served:
            answer = await asyncio.to_thread(get, f"{served.url}/leader")

        assert answer.content_type.startswith("application/json")
        assert json.loads(answer.text) == {
            "phase": "standby",
            "broker": 900,
            "controller": 3,
            "controller_epoch": 7,
            "is_leader": False,
            "is_ready": True,
            "since": 1_700_000_000.0,
            "reason": "broker 3 holds /controller",
            "set_aside": [],
            "warnings": [],
            "failing": [],
            "is_released": False,
            "migration": "none",
            "is_paused": False,
            "paused_by": "",
            "paused_since": 0.0,
            "held_up": [],
            "settings_pending": [],
            "is_observing": False,
            "obstacles": [],
            "differences": [],
        }

    asyncio.run(scenario())


def test_a_process_that_observes_lists_moves_although_another_leads() -> None:
    async def scenario() -> None:
        observing = msgspec.structs.replace(STANDBY, phase="observing", is_observing=True)
        async with serving(observing) as served:
            answer = await asyncio.to_thread(get, f"{served.url}/reassignments")

        assert (answer.code, answer.text) == (200, "[]")

    asyncio.run(scenario())


def test_a_process_whose_event_loop_turns_is_alive() -> None:
    async def scenario() -> None:
        async with serving() as served:
            answer = await asyncio.to_thread(get, f"{served.url}/livez")

        assert (answer.code, answer.text) == (200, "ok\n")

    asyncio.run(scenario())


async def beat_for_ever(exporter: Exporter) -> None:
    while True:
        exporter.beat()
        await asyncio.sleep(0.001)


def test_a_process_whose_event_loop_is_stuck_says_so_and_where() -> None:
    async def scenario() -> None:
        async with serving(stuck_after_s=0.1) as served:
            threading.Event().wait(0.2)
            stuck = get(f"{served.url}/livez")  # blocks the event loop: nothing else runs meanwhile
            beating = asyncio.create_task(beat_for_ever(served.exporter))
            async with asyncio.timeout(10):
                while (well := await asyncio.to_thread(get, f"{served.url}/livez")).code != 200:
                    await asyncio.sleep(0.01)
            beating.cancel()

        assert stuck.code == 503
        assert stuck.text.startswith("stuck: the event loop last turned 0 s ago, and is now at ")
        assert well.text == "ok\n"

    asyncio.run(scenario())


def test_the_index_names_every_page_and_each_of_them_is_there() -> None:
    async def scenario() -> None:
        async with serving() as served:
            index = await asyncio.to_thread(get, served.url)
            pages = [line.split()[0] for line in index.text.splitlines()]
            pages = [page.replace("<id>", "42") for page in pages]
            codes = [(await asyncio.to_thread(get, served.url + page)).code for page in pages]
            other = await asyncio.to_thread(get, f"{served.url}/brokers")

        assert pages == ["/metrics", "/livez", "/readyz", "/leader", "/reassignments", "/reassignments/requests/42"]
        assert codes == [200, 200, 200, 200, 200, 200]
        assert other.code == 404

    asyncio.run(scenario())


def test_moves_and_requests_are_shown_by_the_one_that_leads_and_asked_for_on_its_own_event_loop() -> None:
    async def scenario() -> None:
        async with serving() as served:
            moves = await asyncio.to_thread(get, f"{served.url}/reassignments")
            known = await asyncio.to_thread(get, f"{served.url}/reassignments/requests/42")
            unknown = await asyncio.to_thread(get, f"{served.url}/reassignments/requests/43")
            nonsense = await asyncio.to_thread(get, f"{served.url}/reassignments/requests/x")
            served.process.now = STANDBY
            elsewhere = [await asyncio.to_thread(get, f"{served.url}/reassignments{p}") for p in ("", "/requests/42")]

        assert (moves.code, moves.text, moves.content_type) == (200, "[]", "application/json")
        assert (known.code, known.text) == (200, '{"request_id":42}')
        assert (unknown.code, json.loads(unknown.text)["error"]) == (
            404,
            "no request 43: it never existed, or its status has been deleted",
        )
        assert nonsense.code == 404
        for answer in elsewhere:
            assert answer.code == 503
            assert json.loads(answer.text) == {"error": "this replica does not lead", "controller": 3}
        assert served.moves.threads == {threading.get_ident()}

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            exporter = Exporter(Recorder(), Process(LEADING), ("127.0.0.1", port))
            with pytest.raises(OSError, match="Address already in use") as caught:
                await exporter.start()
            assert caught.value.strerror == (
                f"cannot listen on 127.0.0.1:{port} (http.host, http.port): Address already in use"
            )
            await exporter.stop()

    asyncio.run(scenario())


def test_after_the_end_the_port_is_free_again() -> None:
    async def scenario() -> None:
        async with serving() as served:
            port = int(served.url.rpartition(":")[2])
            await asyncio.to_thread(get, f"{served.url}/metrics")
        with socket.create_server(("127.0.0.1", port)):
            pass
        assert "http" not in {thread.name for thread in threading.enumerate()}

    asyncio.run(scenario())


def test_port_0_turns_the_pages_off() -> None:
    async def scenario() -> None:
        exporter = Exporter(Recorder(), Process(LEADING), ("127.0.0.1", 0))
        await exporter.start()

        assert "http" not in {thread.name for thread in threading.enumerate()}
        await exporter.stop()

    asyncio.run(scenario())


def test_only_its_own_names_are_answered() -> None:
    async def story() -> None:
        async with serving() as served:
            for host, code in (
                ("127.0.0.1:9640", 200),
                ("[::1]:9640", 200),
                ("localhost", 200),
                ("controller-2:9640", 200),
                ("rebound.example.com", 421),
                ("127.0.0.1.example.com:80", 421),
            ):
                assert (await asyncio.to_thread(get, f"{served.url}/livez", Host=host)).code == code, host

    asyncio.run(story())


def test_names_are_added_by_the_operator() -> None:
    assert "kafka.example.com:9640" in AllowedHosts(["Kafka.example.com"])
    assert "anything.example.com" in AllowedHosts(["*"])
    assert "anything.example.com" not in AllowedHosts([])


def test_a_client_that_does_not_speak_http_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with serving() as served:
            port = int(served.url.rpartition(":")[2])
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"\x16\x03\x01" + bytes(range(256)) * 20 + b"\r\n\r\n")
                await reader.read()
                writer.close()

    asyncio.run(story())
    assert len(caplog.records) <= 1
    assert all(record.exc_info is None and len(record.getMessage()) < 400 for record in caplog.records)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
        b"GET / HTTP/9.99999\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n",
        b"\x16\x03\x01" + bytes(300) + b"\r\n\r\n",
        bytes(range(256)) * 8 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_no_error(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with serving() as served:
            (one_line,) = logging.getLogger("controller.http.server").filters
            vars(one_line)["_next"].clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
            writer.write(sent)
            assert await reader.read()
            writer.close()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(story())

    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX-Slow: "])
def test_connections_that_ask_nothing_keep_no_probe_waiting(sent: bytes) -> None:
    async def story() -> None:
        async with serving() as served:
            port = int(served.url.rpartition(":")[2])
            idle = []
            for _ in range(5 * limits.MOST_CONNECTIONS):
                idle.append(await asyncio.open_connection("127.0.0.1", port))
                idle[-1][1].write(sent)
            served.exporter.beat()
            for path in ("livez", "metrics"):
                async with asyncio.timeout(3):
                    assert (await asyncio.to_thread(get, f"{served.url}/{path}")).code == 200
            for _, writer in idle:
                writer.transport.abort()

    asyncio.run(story())


def test_of_many_readers_that_take_no_answer_the_oldest_makes_room_for_a_probe() -> None:
    async def story() -> None:
        async with serving() as served:
            port = int(served.url.rpartition(":")[2])
            served.recorder.registry.register(Long())
            slow = []
            for _ in range(limits.MOST_CONNECTIONS):
                slow.append(await asyncio.open_connection("127.0.0.1", port, limit=1))
                slow[-1][1].write(b"GET /metrics HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(10):
                for reader, _ in slow:
                    await reader.read(1)
            async with asyncio.timeout(5):
                assert (await asyncio.to_thread(get, f"{served.url}/livez")).code == 200
            for _, writer in slow:
                writer.transport.abort()

    asyncio.run(story())


def test_connections_that_ask_nothing_end_soon_and_those_that_do_not_take_an_answer_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REQUEST_S", 0.5)

    async def story() -> None:
        async with serving() as served:
            port = int(served.url.rpartition(":")[2])
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(limits.MOST_CONNECTIONS)]
            idle[0][1].write(b"GET /livez HTTP/1.1\r\nX-Slow: ")
            async with asyncio.timeout(5):
                for waiting, _ in idle:
                    with contextlib.suppress(ConnectionResetError):
                        await waiting.read()
            for _, each in idle:
                each.close()

    asyncio.run(story())


class Long(Collector):
    """So many figures that no socket buffer holds them all."""

    def collect(self) -> list[Metric]:
        return [GaugeMetricFamily("long", "x" * 20_000_000)]

"""The load client against a broker in memory: what it sends, what it measures, and how it ends when things go wrong."""

import pytest
import trio

from pipeline_broker.load.client import LoadOptions, closed_loop
from pipeline_broker.load.departures import WEEK_S, Departure
from pipeline_broker.load.exchange import LoadError
from pipeline_broker.load.replay import ReplayOptions, open_loop
from pipeline_broker.load.statistics import figures
from pipeline_broker.records.batch import read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.record import iterate_records


def drive(serve_fake, run, **broker_options):
    async def main():
        async with serve_fake(**broker_options) as broker:
            return broker, await run(broker)

    return trio.run(main)


def load(**options):
    return lambda broker: closed_loop(LoadOptions("127.0.0.1", broker.port, **options))


def test_a_closed_loop_is_answered_completely_and_in_order(serve_fake):
    options = {"connections": 3, "in_flight": 5, "seconds": 0.15, "warmup_s": 0.05, "record_size": 100}
    broker, result = drive(serve_fake, load(**options))
    found = figures(result.rows)
    assert 0 < found.requests < len(result.rows) == len(broker.produced), "warm-up rows are there, but not measured"
    assert (found.errors, found.order_violations) == (0, 0)
    assert 0 < found.seconds < 5
    for connection in range(3):
        ids = [row.correlation_id for row in result.rows if row.connection == connection]
        assert ids == list(range(len(ids)))
    counts = [sum(1 for _, partition, _ in broker.produced if partition == index) for index in range(4)]
    assert max(counts) - min(counts) <= 3, "all partitions in turn"
    batch = broker.produced[0][2]
    assert crc32c(batch[21:]) == read_header(batch).crc
    assert [len(record.value) for record in iterate_records(batch)] == [100]


def test_large_records_are_sent_although_no_send_takes_them_whole(serve_fake):
    options = {"connections": 1, "in_flight": 16, "record_size": 1_000_000, "seconds": 0.05, "warmup_s": 0.0}
    broker, result = drive(serve_fake, load(**options))
    assert len(broker.produced) == len(result.rows) >= 16
    assert {len(batch) for _, _, batch in broker.produced} == {len(broker.produced[0][2])}


def test_swapped_answers_are_order_violations(serve_fake):
    _, result = drive(serve_fake, load(in_flight=8, seconds=0.05, warmup_s=0), rearrange=lambda answers: answers[::-1])
    assert figures(result.rows).order_violations > 0


def test_error_codes_are_counted(serve_fake):
    _, result = drive(serve_fake, load(in_flight=2, seconds=0.05, warmup_s=0), error_code=6)
    assert figures(result.rows).errors == len(result.rows)


@pytest.mark.parametrize(
    ("rearrange", "message"),
    [
        (lambda answers: None, "closed the connection"),
        (lambda answers: [], "were not answered within"),
        (lambda answers: answers * 2, "more answers than"),
        (lambda answers: [b"\0\0\0\x40" + b"\x7f\xff\xff\xff" + bytes(60)], "never sent"),
        (lambda answers: [b"HTTP/1.1 400 Bad Request" + bytes(40)], "not a produce response"),
    ],
)
def test_a_broken_broker_is_one_clear_error(serve_fake, rearrange, message):
    with pytest.RaisesGroup(pytest.RaisesExc(LoadError, match=message), allow_unwrapped=True, flatten_subgroups=True):
        drive(serve_fake, load(connections=2, seconds=0.05, warmup_s=0, timeout_s=0.3), rearrange=rearrange)


def test_a_silent_port_and_a_closed_port_are_clear_errors():
    async def main():
        with trio.socket.socket() as silent:
            await silent.bind(("127.0.0.1", 0))
            silent.listen(5)
            port = silent.getsockname()[1]
            with pytest.raises(LoadError, match="did not get topic load ready"):
                await closed_loop(LoadOptions("127.0.0.1", port, timeout_s=0.1))
        with pytest.raises(LoadError, match="cannot connect"):
            await closed_loop(LoadOptions("127.0.0.1", port))

    trio.run(main)


def test_a_replay_sends_each_departure_at_its_time_to_the_partition_of_its_key(serve_fake):
    departures = [
        Departure(1_000_000 + index // 4 * WEEK_S // 100, "UA", str(index), f"N{index % 7}", "EWR", "IAH", index)
        for index in range(80)
    ]

    def replay(broker):
        return open_loop(ReplayOptions("127.0.0.1", broker.port, departures, week_s=1.0, warmup_s=0.02))

    broker, result = drive(serve_fake, replay)
    found = figures(result.rows)
    assert (found.requests, found.errors, found.order_violations) == (80, 0, 0)
    assert all(row.sent_ns >= row.intended_ns for row in result.rows)
    intended = sorted(row.intended_ns for row in result.rows)
    assert abs((intended[-1] - intended[0]) / 1e9 - 0.19) < 1e-6, "a hundredth of a week is 10 ms"
    replayed = [(index, batch) for topic, index, batch in broker.produced if topic == "departures"]
    partitions = {}
    for index, batch in replayed:
        (record,) = iterate_records(batch)
        partitions.setdefault(record.key, set()).add(index)
        assert record.timestamp >= 1_000_000_000
    assert len(partitions) == 7
    assert all(len(found) == 1 for found in partitions.values())

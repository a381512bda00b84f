"""The load client against a broker in memory: its requests, its measurements, and its errors."""

import itertools

import pytest
import trio

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load import client
from pipeline_broker.measure.load.client import load_rows
from pipeline_broker.measure.load.departures import WEEK_S, Departure
from pipeline_broker.measure.load.measurement import measured
from pipeline_broker.measure.load.options import Arrivals, LoadOptions
from pipeline_broker.measure.load.replay import ReplayOptions, open_loop
from pipeline_broker.measure.load.statistics import figures
from pipeline_broker.measure.load.worker import recorder_of
from pipeline_broker.records.batch import read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.record import iterate_records


def drive(serve_fake, run, **broker_options):
    async def main():
        async with serve_fake(**broker_options) as broker:
            return broker, await run(broker)

    return trio.run(main)


def load(**options):
    return lambda broker: load_rows(LoadOptions("127.0.0.1", broker.port, **options))


def test_a_closed_loop_receives_all_answers_in_order(serve_fake):
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


def test_large_records_are_sent_in_several_pieces(serve_fake):
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
def test_a_broken_broker_gives_one_error(serve_fake, rearrange, message):
    with pytest.RaisesGroup(pytest.RaisesExc(ClientError, match=message), allow_unwrapped=True, flatten_subgroups=True):
        drive(serve_fake, load(connections=2, seconds=0.05, warmup_s=0, timeout_s=0.3), rearrange=rearrange)


def test_a_silent_port_and_a_closed_port_give_an_error():
    async def main():
        with trio.socket.socket() as silent:
            await silent.bind(("127.0.0.1", 0))
            silent.listen(5)
            port = silent.getsockname()[1]
            with pytest.raises(ClientError, match="did not get topic load ready"):
                await load_rows(LoadOptions("127.0.0.1", port, timeout_s=0.1))
        with trio.socket.socket() as closed:  # bound but not listening, so no other process gets the port
            await closed.bind(("127.0.0.1", 0))
            with pytest.raises(ClientError, match="cannot connect"):
                await load_rows(LoadOptions("127.0.0.1", closed.getsockname()[1]))

    trio.run(main)


def test_a_single_broker_is_driven_at_its_address_whatever_it_advertises(serve_fake):
    broker, result = drive(serve_fake, load(seconds=0.05, warmup_s=0))
    assert result.rows, "the fake broker advertises an address that does not exist"
    assert broker.produced


@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_an_open_loop_keeps_its_intended_times_whatever_the_broker_does(serve_fake, arrivals):
    options = {"rate_per_s": 500, "arrivals": arrivals, "connections": 3, "seconds": 0.4, "warmup_s": 0.1, "seed": 5}
    _, result = drive(serve_fake, load(in_flight=64, **options))
    rows = result.rows
    moments = sorted(row.intended_ns for row in rows)
    assert all(row.sent_ns >= row.intended_ns for row in rows)
    assert moments[-1] - moments[0] < 0.4e9
    assert {row.measured for row in rows} == {True, False}
    if arrivals is Arrivals.CONSTANT:
        assert len(rows) == 200
        assert all(abs(after - before - 2_000_000) <= 1 for before, after in itertools.pairwise(moments))
    else:
        assert 120 < len(rows) < 290
    found = figures(rows)
    assert (found.errors, found.order_violations) == (0, 0)


def test_latency_includes_the_wait_for_a_full_window(serve_fake):
    """No coordinated omission: a single delay of the broker counts for all requests that became due during it."""
    delays_s = iter([0.0] * 20 + [0.1])
    options = {"rate_per_s": 1000, "in_flight": 1, "seconds": 0.3, "warmup_s": 0}
    _, result = drive(serve_fake, load(**options), delay_s=lambda: next(delays_s, 0.0))
    late = sorted(result.rows, key=lambda row: row.sent_ns)[20]
    held = [row for row in result.rows if late.intended_ns < row.intended_ns < late.answered_ns]
    assert len(held) >= 95, "those of a tenth of a second"
    assert all(row.sent_ns >= late.answered_ns for row in held)
    assert sum(latency_ns >= 0.05e9 for latency_ns in figures(result.rows).latencies_ns) >= 45


def test_missing_answers_end_the_load(serve_fake):
    late = []

    def hold(answers):
        late.extend(answers)
        return [late.pop(0)] if len(late) > 4 else []

    with pytest.RaisesGroup(ClientError, allow_unwrapped=True, flatten_subgroups=True):
        drive(serve_fake, load(rate_per_s=1000, in_flight=4, seconds=0.1, warmup_s=0, timeout_s=0.3), rearrange=hold)


def test_a_think_time_is_kept_after_every_answer(serve_fake):
    _, result = drive(serve_fake, load(in_flight=2, think_s=0.02, seconds=0.2, warmup_s=0))
    sent = sorted(row.sent_ns for row in result.rows)
    answered = sorted(row.answered_ns for row in result.rows)
    assert 8 <= len(sent) <= 22
    for place in range(2, len(sent)):
        assert sent[place] - answered[place - 2] >= 20_000_000


def test_each_connection_is_its_own_idempotent_producer(serve_fake):
    broker, result = drive(serve_fake, load(connections=2, is_idempotent=True, in_flight=5, seconds=0.1, warmup_s=0.02))
    assert broker.producers == 2
    sequences = {}
    for _, partition, batch in broker.produced:
        header = read_header(batch)
        assert header.crc == crc32c(batch[21:])
        following = sequences.get((header.producer_id, partition), 0)
        assert header.base_sequence == following
        sequences[header.producer_id, partition] = following + 1
    assert len(sequences) == 8
    assert figures(result.rows).errors == 0


def test_reads_continue_where_the_last_one_ended(serve_fake):
    broker, result = drive(serve_fake, load(read_share=0.5, in_flight=1, seconds=0.2, warmup_s=0.02))
    assert abs(len(broker.fetched) - len(broker.produced)) <= 1
    assert figures(result.rows).errors == 0
    of_first = [offset for partition, offset in broker.fetched if partition == 0]
    assert of_first[:12] == [*range(11), 0][: len(of_first[:12])]


def test_a_load_may_only_read(serve_fake):
    broker, result = drive(serve_fake, load(read_share=1.0, in_flight=2, seconds=0.1, warmup_s=0.02))
    assert not broker.produced
    assert len(broker.fetched) == len(result.rows) > 4


def test_requests_without_answers_are_sent_at_their_intended_times(serve_fake):
    async def run(broker):
        options = LoadOptions("127.0.0.1", broker.port, acks=0, rate_per_s=200, seconds=0.2, warmup_s=0, in_flight=9)
        driven = await client.drive(options, recorder_of)
        return measured(options, driven)

    broker, found = drive(serve_fake, run)
    assert found.requests == found.records == 40
    assert found.answered == 0
    assert 0.1 < found.seconds < 0.5
    assert broker.produced


def test_an_open_loop_stops_waiting_in_time_and_keeps_rows_of_unanswered_requests(serve_fake):
    options = {"rate_per_s": 1000, "in_flight": 10_000, "connections": 2, "seconds": 0.2, "warmup_s": 0.05}
    answered = itertools.count()
    silent = {"rearrange": lambda answers: [each for each in answers if next(answered) < 50]}
    _, result = drive(serve_fake, load(**options, hang_up_s=0.1), **silent)
    rows = result.rows
    assert len(rows) == 200, "every request that was due"
    missing = [row for row in rows if row.answered_ns is None]
    assert missing
    found = figures(rows)
    assert found.requests + found.unanswered == sum(row.measured for row in rows)
    assert found.unanswered > 0
    assert found.due_s == pytest.approx(0.149, abs=0.002)
    assert (result.ended_ns - result.started_ns) / 1e9 < 2
    _, whole = drive(serve_fake, load(**options, hang_up_s=30.0))
    assert all(row.answered_ns is not None for row in whole.rows)
    assert (whole.ended_ns - whole.started_ns) / 1e9 < 10, "and does not wait once all requests are answered"


@pytest.mark.parametrize(
    "wrong",
    [
        {"hang_up_s": 1.0},
        {"acks": 0},
        {"rate_per_s": 5, "think_s": 1.0},
        {"acks": 1, "is_idempotent": True},
        {"acks": 0, "rate_per_s": 5, "read_share": 0.5},
        {"key_skew": 1.0},
        {"record_size": 1_000_000, "batch_records": 100},
    ],
)
def test_contradicting_options_give_a_one_line_error(wrong):
    with pytest.raises(ClientError) as caught:
        LoadOptions("h", 1, **wrong).check()
    assert "\n" not in str(caught.value)


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

"""Departures go to the partitions that Kafka's producers choose; the busiest week is found; the data file is
complete.
"""

import gzip
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.departures import (
    DAY_S,
    WEEK_S,
    Departure,
    busiest_week,
    intended_offsets_ns,
    read_departures,
)
from pipeline_broker.measure.load.replay import DEFAULT_DATA
from pipeline_broker.records.murmur2 import murmur2, partition_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas through a deprecated function
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

HEADER = "time,carrier,flight,tail_number,origin,destination,delay_minutes\n"


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_known_hashes(key, hashed):
    assert murmur2(key) == hashed % (1 << 32)


@given(st.binary(max_size=40), st.integers(1, 50))
def test_the_hash_equals_that_of_other_clients(key, partitions):
    assert murmur2(key) == kafka_python_murmur2(key) % (1 << 32)
    assert partition_of(key, partitions) == (kafka_python_murmur2(key) & 0x7FFFFFFF) % partitions


def departure(time_s, tail_number="N1"):
    return Departure(time_s, "UA", "1", tail_number, "EWR", "IAH", None)


@given(st.lists(st.integers(0, 30 * DAY_S), min_size=1, max_size=60).map(sorted))
def test_no_other_week_has_more_departures(times):
    week = times[busiest_week(times)]
    assert week[-1] < week[0] // DAY_S * DAY_S + WEEK_S
    for day in range(31):
        others = sum(1 for time_s in times if day * DAY_S <= time_s < day * DAY_S + WEEK_S)
        assert others <= len(week)


def test_a_week_takes_the_given_seconds():
    departures = [departure(1000), departure(1000 + WEEK_S // 2), departure(1000 + WEEK_S)]
    assert intended_offsets_ns(departures, 5.0) == [0, 2_500_000_000, 5_000_000_000]


def test_a_departure_is_a_record_keyed_by_its_aircraft():
    record = departure(1_357_035_300, "N14228").record()
    assert (record.key, record.timestamp) == (b"N14228", 1_357_035_300_000)
    assert departure(0, "").record().key is None


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", HEADER, HEADER + "x,UA,1,N1,EWR,IAH,2\n", HEADER + "1,UA\n",
     HEADER + "2,UA,1,N1,EWR,IAH,\n1,UA,1,N1,EWR,IAH,3\n"],
)  # fmt: skip
def test_an_invalid_data_file_gives_an_error_with_its_path(tmp_path, text):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ClientError, match=str(path)):
        read_departures(path)
    path.write_bytes(gzip.compress(text.encode())[:-6])
    with pytest.raises(ClientError, match=str(path)):
        read_departures(path)


def test_the_repositorys_data_file_is_the_year_2013():
    departures = read_departures(DEFAULT_DATA)
    assert len(departures) == 336_776
    week = read_departures(DEFAULT_DATA, busiest_week_only=True)
    assert len(week) > 336_776 / 52
    start = departures.index(week[0])
    assert departures[start : start + len(week)] == week

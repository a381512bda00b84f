"""Trace files hold what happened, or say how much is missing."""

import json
import resource
import sys
import threading
import time

import pytest

from pipeline_broker.objects.store_around import Operation
from pipeline_broker.objects.watched_store import EndedRequest, Outcome
from pipeline_broker.telemetry.trace_files import QUEUE_SAMPLE_NS, ROWS_MAX, STRINGS_MAX, TraceFiles
from stages.mute import MuteReason
from stages.request import NO_OP, Close

REASONS = {reason.value: reason.name.lower() for reason in MuteReason}


def lost(directory):
    return json.loads((directory / "lost.json").read_text(encoding="utf-8"))


def strings(directory):
    return [json.loads(line) for line in (directory / "strings.jsonl").read_text(encoding="utf-8").splitlines()]


def test_requests_can_be_read_from_their_ring_file(tmp_path, read_ring, answered):
    files = TraceFiles(tmp_path, REASONS)
    files.request_ended(answered(5))
    files.request_ended(answered(6, committed=False, result=NO_OP))
    files.request_ended(answered(7, result=Close("malformed")))
    files.close()

    header, rows = read_ring(tmp_path / "requests.ring")

    assert (header["table"], header["schema"]) == ("requests", 2)
    assert [row["outcome"] for row in rows] == ["send", "noop", "close"]
    assert rows[0] == {
        "connection": 3,
        "sequence": 5,
        "api": 0,
        "version": 9,
        "correlation_id": 7,
        "queue": 2,
        "depth": 1,
        "request_bytes": 35,
        "response_bytes": 99,
        "acks": -1,
        "commit": 11,
        "outcome": "send",
        "received_ns": 1_000_000,
        "enqueued_ns": 2_000_000,
        "dequeued_ns": 3_000_000,
        "handled_ns": 4_000_000,
        "decided_ns": 4_000_000,
        "submitted_ns": 5_000_000,
        "durable_ns": 6_000_000,
        "completed_ns": 7_000_000,
        "released_ns": 8_000_000,
        "send_started_ns": 9_000_000,
        "sent_ns": 10_000_000,
    }
    assert (rows[1]["commit"], rows[1]["submitted_ns"], rows[1]["durable_ns"]) == (None, None, None)
    assert lost(tmp_path) == {"requests": 0, "appends": 0, "commits": 0, "mutes": 0, "queues": 0, "store": 0}


def test_a_dropped_request_has_no_stamps_of_stages_it_did_not_reach(tmp_path, read_ring, answered):
    request = type(answered())(answered().connection, 4, b"frame", 1000)
    files = TraceFiles(tmp_path, REASONS)
    files.request_dropped(request)
    files.close()

    _, (row,) = read_ring(tmp_path / "requests.ring")

    assert (row["outcome"], row["received_ns"], row["sequence"]) == ("dropped", 1000, 4)
    assert {row[name] for name in ("api", "queue", "commit", "acks", "dequeued_ns", "completed_ns", "sent_ns")} == {
        None
    }


def test_a_commit_gives_its_row_and_one_append_for_each_entry_of_a_request(
    tmp_path, read_ring, answered, make_commit, make_entry
):
    names = ["orders", "b\u2028\n\u00e9"]
    first, second = make_entry(names[0], 0, 5, 9), make_entry(names[1], 3, 0, 0)
    files = TraceFiles(tmp_path, REASONS)
    files.commit_ended(make_commit(11, [(answered(1), [first, second]), (None, [make_entry("internal", 0, 0, 0)])]))
    files.commit_ended(make_commit(12, [(answered(2), [make_entry(names[0], 1, 7, 7)])]))
    files.close()

    strings = [json.loads(line) for line in (tmp_path / "strings.jsonl").read_text(encoding="utf-8").splitlines()]
    appends = read_ring(tmp_path / "appends.ring")[1]
    commits = read_ring(tmp_path / "commits.ring")[1]

    assert strings == names
    assert [
        (
            row["sequence"],
            row["commit"],
            strings[row["topic"]],
            row["partition"],
            row["base_offset"],
            row["last_offset"],
        )
        for row in appends
    ] == [(1, 11, names[0], 0, 5, 9), (1, 11, names[1], 3, 0, 0), (2, 12, names[0], 1, 7, 7)]
    assert commits[0] == {
        "commit": 11,
        "entries": 3,
        "bytes": 300,
        "started_ns": 10,
        "written_ns": 20,
        "durable_ns": 3_000_020,
        "completed_ns": 3_000_040,
        "is_on_loop": 1,
    }


def test_mutes_carry_the_word_of_their_reason(tmp_path, read_ring):
    files = TraceFiles(tmp_path, REASONS)
    files.mute_ended(4, MuteReason.QUEUE_FULL, 100, 300)
    files.close()

    assert read_ring(tmp_path / "mutes.ring")[1] == [
        {"connection": 4, "reason": "queue_full", "began_ns": 100, "ended_ns": 300}
    ]


def test_the_depth_of_a_queue_is_written_at_most_once_in_a_millisecond(tmp_path, read_ring):
    step = QUEUE_SAMPLE_NS
    files = TraceFiles(tmp_path, REASONS)
    samples = [(0, 0, 1), (0, step - 1, 5), (1, 5, 1), (0, step, 1), (0, 2 * step - 1, 7), (0, 2 * step, 3)]
    for queue, at_ns, depth in samples:
        files.queue_sampled(queue, at_ns, depth)
    files.close()

    rows = read_ring(tmp_path / "queues.ring")[1]

    assert [(row["queue"], row["at_ns"], row["depth"]) for row in rows] == [
        (0, 0, 1),
        (1, 5, 1),
        (0, step, 1),
        (0, 2 * step, 3),
    ]


def test_a_full_ring_drops_rows_and_counts_them(tmp_path, read_ring, answered):
    files = TraceFiles(tmp_path, REASONS, rows_max={**ROWS_MAX, "requests": 8}, drain_seconds=threading.TIMEOUT_MAX)
    for sequence in range(11):
        files.request_ended(answered(sequence))
    files.close()

    rows = read_ring(tmp_path / "requests.ring")[1]

    assert [row["sequence"] for row in rows] == list(range(8))
    assert lost(tmp_path)["requests"] == 3


def test_topics_beyond_the_bound_are_lost_appends(tmp_path, read_ring, answered, make_commit, make_entry):
    topics = STRINGS_MAX + 2
    files = TraceFiles(tmp_path, REASONS, rows_max={**ROWS_MAX, "appends": topics})
    files.commit_ended(make_commit(1, [(answered(), [make_entry(f"t{number}", 0, 0, 0) for number in range(topics)])]))
    files.close()

    assert len(read_ring(tmp_path / "appends.ring")[1]) == STRINGS_MAX
    assert lost(tmp_path)["appends"] == 2


@pytest.fixture
def eager_threads():
    """Threads take turns a thousand times more often than they would."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


SIZE_BYTES = 64 << 10
"""Size of the file of requests: several times the ring of the test."""


@pytest.mark.usefixtures("eager_threads")
def test_every_row_is_in_the_file_or_counted_while_the_thread_drains(tmp_path, read_ring, answered):
    """With a small ring that is drained without a pause, no row is torn, repeated or out of order."""
    total = 0
    request = answered()
    files = TraceFiles(tmp_path, REASONS, rows_max={**ROWS_MAX, "requests": 64}, drain_seconds=0.0)
    deadline = time.monotonic() + 30  # a busy machine may leave the thread without a turn for a while
    while total < 30_000 or ((tmp_path / "requests.ring").stat().st_size < SIZE_BYTES and time.monotonic() < deadline):
        request.sequence = request.received_ns = request.sent_ns = total
        files.request_ended(request)
        total += 1
    files.close()

    rows = read_ring(tmp_path / "requests.ring")[1]
    sequences = [row["sequence"] for row in rows]

    assert sequences == sorted(set(sequences))
    assert all(row["sequence"] == row["received_ns"] == row["sent_ns"] for row in rows)
    assert len(rows) + lost(tmp_path)["requests"] == total
    assert len(rows) > 64


@pytest.fixture
def limit_file_sizes():
    """Limit the size of files by the system, which still writes the part that fits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size_bytes: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fails_loses_counted_rows_and_leaves_whole_ones(tmp_path, limit_file_sizes, read_ring, answered):
    files = TraceFiles(tmp_path, REASONS, drain_seconds=threading.TIMEOUT_MAX)
    for sequence in range(9):
        files.request_ended(answered(sequence))
    limit_file_sizes((tmp_path / "requests.ring").stat().st_size + 200)

    with pytest.raises(OSError, match="File too large"):
        files.close()

    assert read_ring(tmp_path / "requests.ring")[1] == []
    assert lost(tmp_path)["requests"] == 9
    files.close()


def test_a_table_continues_in_another_file_and_the_next_trace_deletes_these(tmp_path, read_ring, answered):
    files = TraceFiles(tmp_path, REASONS, file_bytes_max=1, drain_seconds=1000)
    for sequence in range(3):
        files.request_ended(answered(sequence))
        files._drain()
    files.close()
    names = ["requests.ring", "requests-1.ring", "requests-2.ring", "requests-3.ring"]
    rows = [read_ring(tmp_path / name)[1] for name in names]
    assert [[row["sequence"] for row in some] for some in rows] == [
        [],
        [0],
        [1],
        [2],
    ]  # a header alone is a byte too many
    TraceFiles(tmp_path, REASONS).close()
    assert [path.name for path in tmp_path.glob("requests*.ring")] == ["requests.ring"]


def test_a_table_ends_with_its_file_if_the_next_one_cannot_be_created(tmp_path, read_ring, answered):
    files = TraceFiles(tmp_path, REASONS, file_bytes_max=1, drain_seconds=threading.TIMEOUT_MAX)
    (tmp_path / "requests-1.ring").mkdir()
    files.request_ended(answered(0))
    with pytest.raises(IsADirectoryError):
        files.close()
    assert read_ring(tmp_path / "requests.ring")[1] == []
    assert lost(tmp_path)["requests"] == 1


def test_the_first_failure_is_raised_even_if_the_lost_rows_cannot_be_stored(tmp_path, answered):
    files = TraceFiles(tmp_path, REASONS, file_bytes_max=1, drain_seconds=threading.TIMEOUT_MAX)
    for name in ("requests-1.ring", "lost.json"):
        (tmp_path / name).mkdir()
    files.request_ended(answered(0))
    with pytest.raises(IsADirectoryError, match=r"requests-1\.ring"):
        files.close()


def test_a_lost_list_that_cannot_be_stored_is_a_failure(tmp_path):
    files = TraceFiles(tmp_path, REASONS)
    (tmp_path / "lost.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"lost\.json"):
        files.close()


def test_no_row_is_in_a_file_before_the_topic_that_it_names(tmp_path, read_ring, answered, make_commit, make_entry):
    """A broker that is killed leaves both files as they are."""
    files = TraceFiles(tmp_path, REASONS, drain_seconds=threading.TIMEOUT_MAX)
    file = files._strings_file

    def end_commit(topic):
        files.commit_ended(make_commit(11, [(answered(1), [make_entry(topic, 0, 5, 9)])]))

    class SlowFile:
        """A commit ends while it is written to."""

        def write(self, piece):
            file.write(piece)
            end_commit("late")

    end_commit("early")
    files._strings_file = SlowFile()
    files._drain()
    files._strings_file = file
    assert strings(tmp_path) == ["early"]
    assert [row["topic"] for row in read_ring(tmp_path / "appends.ring")[1]] == [0]
    files.close()
    assert strings(tmp_path) == ["early", "late"]
    assert [row["topic"] for row in read_ring(tmp_path / "appends.ring")[1]] == [0, 1]


def test_a_new_trace_replaces_an_earlier_one(tmp_path, read_ring, answered):
    for sequences in (range(5), range(2)):
        files = TraceFiles(tmp_path / "trace", REASONS)
        for sequence in sequences:
            files.request_ended(answered(sequence))
        files.close()

    assert [row["sequence"] for row in read_ring(tmp_path / "trace" / "requests.ring")[1]] == [0, 1]


def test_store_requests_are_recorded_from_many_threads_and_not_after_the_end(tmp_path, read_ring):
    files = TraceFiles(tmp_path, REASONS)

    def ask(number):
        for step in range(50):
            files.store_request_ended(EndedRequest(Operation.CREATE, "x", number, 0, step, step + 7, Outcome.DONE))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files.store_request_ended(EndedRequest(Operation.UPLOAD, "y", 20 << 20, 0, 1, 2, Outcome.UNSURE, "lost"))
    files.close()
    ask(9)

    _, rows = read_ring(tmp_path / "store.ring")
    assert sorted((row["sent_bytes"], row["began_ns"]) for row in rows[:-1]) == [
        (number, step) for number in range(4) for step in range(50)
    ]
    assert strings(tmp_path) == ["create", "done", "upload", "unsure"]
    assert (rows[0]["operation"], rows[0]["outcome"]) == (0, 1)
    assert rows[-1] == {
        "operation": 2,
        "outcome": 3,
        "requests": 5,
        "sent_bytes": 20 << 20,
        "received_bytes": 0,
        "began_ns": 1,
        "ended_ns": 2,
    }
    assert lost(tmp_path)["store"] == 0

"""The most recent requests, as they are kept and shown."""

import struct
from types import SimpleNamespace

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.telemetry.recent_requests import RecentRequests, RequestNames
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatResponse
from stages.request import Close, NoOp, Request, Send
from stages.stamps import now_ns
from stages.timeline import NO_STAMP

HEARTBEAT = 12


def frame(client_id):
    name = b"" if client_id is None else client_id.encode()
    return struct.pack(">hhih", HEARTBEAT, 4, 77, -1 if client_id is None else len(name)) + name


def request(*, result=None, client_id="me", answer=None, api=HEARTBEAT, received_ns=1_000):
    made = Request(SimpleNamespace(index=3), 5, frame(client_id), received_ns)
    made.api, made.version, made.correlation_id = api, 4, 77
    made.result = Send(b"x") if result is None else result
    made.answer = answer
    made.dequeued_ns, made.handled_ns, made.completed_ns, made.sent_ns = 2_000, 4_000, 7_000, 11_000
    made.decided_ns = made.handled_ns
    return made


def test_a_request_is_shown_with_its_names_and_stamps():
    recent = RecentRequests(10)
    recent.request_ended(request())
    (shown,) = recent
    assert (shown.api, shown.version, shown.client_id, shown.outcome) == ("Heartbeat", 4, "me", "answered")
    assert (shown.connection, shown.sequence, shown.correlation_id) == (3, 5, 77)
    assert (shown.received_ns, shown.sent_ns, shown.submitted_ns, shown.acks) == (1_000, 11_000, 0, None)
    assert (shown.stages.request_queue_ns, shown.stages.local_ns, shown.stages.total_ns) == (1_000, 2_000, 10_000)
    assert len({shown, *recent}) == 1


def test_a_stage_that_was_not_passed_took_no_time():
    recent = RecentRequests(10)
    made = request()
    assert made.submitted_ns == NO_STAMP
    recent.request_ended(made)
    assert next(iter(recent)).stages.commit_wait_ns == 0


def test_the_errors_of_an_answer_are_named_once():
    recent = RecentRequests(10)
    recent.request_ended(request(answer=HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)))
    recent.request_ended(request(answer=HeartbeatResponse(error_code=0)))
    recent.request_ended(request(answer=HeartbeatResponse(error_code=9_999)))
    assert [shown.errors for shown in recent] == [("UNKNOWN_MEMBER_ID",), (), ("9999",)]


@pytest.mark.parametrize(
    ("result", "outcome"), [(Send(b"x"), "answered"), (NoOp(), "no answer"), (Close("reason"), "closed")]
)
def test_the_outcome_of_a_request_is_shown(result, outcome):
    recent = RecentRequests(10)
    recent.request_ended(request(result=result))
    assert next(iter(recent)).outcome == outcome


def test_a_request_of_a_closed_connection_is_dropped():
    recent = RecentRequests(10)
    made = request()
    made.result = None
    recent.request_dropped(made)
    assert next(iter(recent)).outcome == "dropped"


@pytest.mark.parametrize("client_id", [None, "", "a name with ümlauts"])
def test_the_client_id_is_that_of_the_header(client_id):
    recent = RecentRequests(10)
    recent.request_ended(request(client_id=client_id))
    assert next(iter(recent)).client_id == (client_id or "")


def test_a_frame_without_a_header_has_no_client():
    recent = RecentRequests(10)
    made = request(api=-1)
    for data in (b"", b"\0" * 9, frame("cut short")[:12]):
        made.frame = data
        recent.request_ended(made)
    assert [shown.client_id for shown in recent] == ["", "", "cu"]
    assert {shown.api for shown in recent} == {"-1"}


def test_the_newest_requests_are_kept_without_frames_and_responses():
    recent = RecentRequests(3)
    for number in range(5):
        recent.request_ended(request(received_ns=number))
    assert [shown.received_ns for shown in recent] == [2, 3, 4]
    recent.clear()
    assert list(recent) == []


def test_the_callback_is_called_at_every_end_even_if_nothing_is_kept():
    told = []
    recent = RecentRequests(0, lambda: told.append(1))
    recent.request_ended(request())
    recent.request_dropped(request())
    recent.commit_ended(object())
    recent.mute_ended(0, 0, 0, 0)
    recent.queue_sampled(0, 0, 0)
    assert (len(told), list(recent)) == (3, [])


def test_clearing_also_forgets_answered_requests_that_have_not_ended():
    """Their clients may already act on the responses; requests without a response are kept."""
    recent = RecentRequests(10)
    answered, waiting = request(), request()
    recent.clear()
    waiting.completed_ns = now_ns()
    recent.request_ended(answered)
    recent.request_ended(waiting)
    assert [shown.stamps["completed_ns"] for shown in recent] == [waiting.completed_ns]


def test_the_names_in_a_request_are_read_once_on_demand():
    read = []

    def names_of(ended):
        return lambda: read.append(ended) or RequestNames(groups=("g",))

    recent = RecentRequests(10, names_of=names_of)
    recent.request_ended(request())
    (shown,) = recent
    assert read == []
    assert (shown.names.groups, shown.names.partitions, len(read)) == (("g",), (), 1)


def test_requests_since_a_count_are_those_after_it_that_are_still_kept():
    recent = RecentRequests(3)
    assert (recent.count, list(recent.since(0))) == (0, [])
    for number in range(5):
        recent.request_ended(request(received_ns=number))
    assert recent.count == 5
    assert [[shown.received_ns for shown in recent.since(count)] for count in (0, 3, 4, 5)] == [
        [2, 3, 4],
        [3, 4],
        [4],
        [],
    ]
    fresh = recent.since(2)
    recent.clear()
    assert [shown.received_ns for shown in fresh] == [2, 3, 4]
    recent.request_ended(request(received_ns=now_ns() + 1))
    assert (recent.count, len(list(recent.since(5))), len(list(recent.since(0)))) == (6, 1, 1)

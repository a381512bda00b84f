"""Share sessions: epochs, errors, listed partitions, connections."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.share_partitions.share_sessions import ShareSessionError, ShareSessions

PLACE, OTHER = (bytes(16), 0), (bytes(16), 1)


def test_epochs_follow_each_other():
    """The first request has epoch 0, the next one 1; any other epoch is rejected and changes nothing."""
    sessions = ShareSessions(10)
    session = sessions.open("g", "m", "c", [PLACE])
    with pytest.raises(ShareSessionError) as refused:
        sessions.proceed("g", "m", 2, [OTHER])
    assert refused.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.proceed("g", "m", 1, [OTHER], [PLACE]) is session
    assert list(session.partitions) == [OTHER]
    assert session.epoch == 2
    session.epoch = 2**31 - 1
    assert sessions.proceed("g", "m", 2**31 - 1).epoch == 1


def test_unknown_sessions_raise_not_found():
    sessions = ShareSessions(10)
    sessions.open("g", "m", "c", [])
    assert sessions.remove("g", "m") is not None
    assert sessions.remove("g", "m") is None
    with pytest.raises(ShareSessionError) as refused:
        sessions.proceed("g", "m", 1)
    assert refused.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_number_of_sessions_is_limited():
    """A member may reopen its own session at the limit."""
    sessions = ShareSessions(1)
    sessions.open("g", "m", "c", [])
    sessions.open("g", "m", "c", [])
    with pytest.raises(ShareSessionError) as refused:
        sessions.open("g", "other", "c", [])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.has_members("g")
    sessions.remove("g", "m")
    assert not sessions.has_members("g")


def test_a_rejected_session_takes_no_capacity():
    sessions = ShareSessions(1, partitions_max=2)
    sessions.open("g", "m", "c", [PLACE])
    for _ in range(3):
        with pytest.raises(ShareSessionError):
            sessions.open("g", "other", "c", [PLACE])
    assert sessions.partitions == 1
    sessions.proceed("g", "m", 1, [OTHER])


def test_listed_partitions():
    """New partitions once, then those with records or an error, and once more when the error is over."""
    session = ShareSessions(1).open("g", "m", "c", [PLACE])
    quiet = {"has_records": False, "has_error": False}
    assert session.must_list(PLACE, **quiet)
    assert not session.must_list(PLACE, **quiet)
    assert session.must_list(PLACE, has_records=True, has_error=False)
    assert session.must_list(PLACE, has_records=False, has_error=True)
    assert session.must_list(PLACE, **quiet)
    assert not session.must_list(PLACE, **quiet)
    assert session.must_list(OTHER, **quiet), "it is not in the session"


def test_sessions_of_a_connection():
    sessions = ShareSessions(10)
    for member in ("a", "b"):
        sessions.open("g", member, "one", [])
    sessions.open("h", "a", "two", [])
    assert {session.member_id for session in sessions.of_connection("one")} == {"a", "b"}


def test_the_partitions_of_all_sessions_are_limited():
    sessions = ShareSessions(10, partitions_max=3)
    sessions.open("g", "m", "c", [(b"t", 0), (b"t", 0), (b"t", 1)])
    sessions.open("g", "n", "c", [(b"t", 0)])
    with pytest.raises(ShareSessionError) as refused:
        sessions.open("g", "o", "c", [(b"t", 0)])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    with pytest.raises(ShareSessionError) as refused:
        sessions.proceed("g", "m", 1, added=[(b"t", 1), (b"t", 2)])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.proceed("g", "m", 1, added=[(b"t", 1)], forgotten=[(b"t", 0), (b"t", 7), (b"t", 8)])
    assert sessions.partitions == 2
    listed = {key: list(session.partitions) for key, session in sessions.listed().items()}
    assert listed == {("g", "m"): [(b"t", 1)], ("g", "n"): [(b"t", 0)]}
    assert len(sessions) == 2
    for member in "mn":
        sessions.remove("g", member)
    assert sessions.partitions == 0

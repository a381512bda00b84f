"""Entries of one commit are applied in the order in which they were appended."""

from pipeline_broker.broker.appended import Appended, in_one_commit
from stages.request import Pending, Send


def test_entries_apply_in_the_order_in_which_they_were_appended():
    told, first, answer = [], Appended(), Send(b"")
    first.add("first", lambda: told.append("first"))
    result = in_one_commit(first, Pending(["second"], answer, lambda: told.append("second")), answer)
    assert list(result.entries) == ["first", "second"]
    assert told == []
    result.on_durable()
    assert told == ["first", "second"]

"""What is handed over together is applied in the order in which it was appended."""

from pipeline_broker.broker.appended import Appended, in_one_commit
from stages.request import Pending, Send


def test_what_was_appended_first_comes_true_before_what_another_coordinator_appended_behind_it():
    told, first, answer = [], Appended(), Send(b"")
    first.add("first", lambda: told.append("first"))
    result = in_one_commit(first, Pending(["second"], answer, lambda: told.append("second")), answer)
    assert list(result.entries) == ["first", "second"]
    assert told == []
    result.on_durable()
    assert told == ["first", "second"]

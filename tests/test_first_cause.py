"""The first cause under groups of groups."""

from pipeline_broker.first_cause import first_cause


def test_what_nurseries_wrapped_is_found_and_what_they_did_not_is_itself():
    cause, other = ValueError("first"), ValueError("second")
    assert first_cause(cause) is cause
    assert first_cause(ExceptionGroup("outer", [ExceptionGroup("inner", [cause, other]), other])) is cause

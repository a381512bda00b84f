from pipeline_broker.base.first_cause import first_cause


def test_the_first_exception_of_nested_groups_and_a_single_exception_itself():
    cause, other = ValueError("first"), ValueError("second")
    assert first_cause(cause) is cause
    assert first_cause(ExceptionGroup("outer", [ExceptionGroup("inner", [cause, other]), other])) is cause

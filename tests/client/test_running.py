"""The exception that stands for an exception group of concurrent tasks."""

import pytest

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.running import run_client


def failing(*errors):
    async def program():
        raise BaseExceptionGroup("tasks", [BaseExceptionGroup("of one", list(errors))])

    return program


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([ClientError("lost"), KeyboardInterrupt()], KeyboardInterrupt),
        ([ClientError("lost"), BrokenPipeError(), KeyboardInterrupt()], KeyboardInterrupt),
        ([ClientError("lost"), BrokenPipeError()], BrokenPipeError),
        ([ValueError("a mistake of ours"), ClientError("lost")], ClientError),
    ],
)
def test_an_interrupt_comes_before_a_closed_pipe_before_a_client_error(errors, told):
    with pytest.raises(told):
        run_client(failing(*errors))


def test_the_first_of_several_errors_is_raised():
    with pytest.raises(ClientError, match="first"):
        run_client(failing(ClientError("first"), ClientError("second")))


def test_a_programming_error_is_not_hidden():
    with pytest.raises(BaseExceptionGroup):
        run_client(failing(ValueError("a mistake of ours")))

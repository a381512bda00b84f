"""An application with requests that take several turns, as the test decides."""

from stages.request import Send, Waiting, go_on
from tests.stages.connection_bench import ByHand


class Stepping(ByHand):
    """Handles `u...` in the steps given by the test, and everything else like ByHand.

    Attributes:
        events: notes of the steps, and frames as they are handled.
        is_over: whether endless steps may end.
        closed_steps: frames with steps that were closed before their end.
    """

    def __init__(self, **steps):
        super().__init__()
        self.steps = {name.encode(): function for name, function in steps.items()}
        self.events, self.closed_steps, self.is_over = [], [], False

    def handle(self, request):
        frame = bytes(request.frame)
        self.events.append(frame)
        if frame[:1] == b"u":
            return go_on(self.watched(frame, self.steps[frame](self, request)))
        return super().handle(request)

    def watched(self, frame, steps):
        try:
            return (yield from steps)
        except GeneratorExit:
            self.closed_steps.append(frame)
            raise

    def failed(self, request, error):
        return Send(type(error).__name__.encode() + b" " + bytes(request.frame))


def three_steps(application, request):
    for number in (1, 2):
        application.events.append(b"%s step %d" % (bytes(request.frame), number))
        yield None
    return Send(b"done " + bytes(request.frame))


def until_over(application, request):
    while not application.is_over:
        yield None
    return Send(b"done")


def waiting(over):
    """Yield a Waiting, whose callback the test finds in `over`."""

    def steps(application, request):
        yield Waiting(over.append)
        return Send(b"called")

    return steps


def unfinished_count(memory):
    return memory.server.statistics().handlers.unfinished

"""Scripts of requests for property tests, and the responses that every schedule must give.

A request is text: action, key, delay, connection, index in its connection, correlation id. Its response repeats it, so
a response in the wrong slot or on the wrong connection is noticed.
"""

import attrs
import trio
from hypothesis import strategies as st

from stages.mode import CLASSIC, PIPELINED
from stages.request import NO_OP, PARKED, Close, Parked, Pending, Send, Waiting, go_on

MILLISECOND = 0.001
MODES = {
    "classic": attrs.evolve(CLASSIC, handlers=3),
    "pipelined": attrs.evolve(PIPELINED, queues=3, in_flight_max=5),
}
"""The presets with bounds so small that short scripts reach them."""

ANSWERED = ("send", "pending", "parked", "throttle")
SILENT = ("quiet", "nothing")
BAD = ("raise", "forget", "twice", "park-forget", "bad-part")
STEPPING = ("steps", "steps-pending", "steps-commit", "steps-work", "steps-wait")
"""Actions that take several turns: one more than their delay."""
STEPPING_BAD = ("steps-raise", "steps-twice", "steps-nonsense")
APPENDING = ("pending", "quiet", "parked-pending", "steps-pending", "steps-commit")


@attrs.frozen
class Ask:
    action: str
    key: int
    delay: int
    connection: int = 0
    place: int = 0
    correlation: int = 0

    def encode(self):
        return " ".join(map(str, attrs.astuple(self))).encode()

    @classmethod
    def decode(cls, payload):
        action, *numbers = bytes(payload).decode().split()
        return cls(action, *map(int, numbers))

    @property
    def entry(self):
        return (self.connection, self.key, self.place)


@attrs.frozen
class ClientScript:
    """The actions of one client.

    Attributes:
        asks: its requests.
        bursts: numbers of requests that it sends at once, repeated.
        pause: milliseconds between bursts.
        receive_sizes, send_sizes: see `stages.testing.memory_transport`.
    """

    asks: tuple
    bursts: tuple
    pause: int
    receive_sizes: tuple
    send_sizes: tuple

    def numbered(self, connection):
        """Return the requests with their indexes; correlation ids repeat, like those of a careless client."""
        return attrs.evolve(
            self,
            asks=tuple(
                attrs.evolve(ask, connection=connection, place=place, correlation=place // 2 % 3)
                for place, ask in enumerate(self.asks)
            ),
        )

    def expected(self):
        """Return the responses that every schedule must give."""
        responses = []
        for ask in self.asks:
            if ask.action in ("close", "park-forget", "bad-part"):
                return responses
            if ask.action in ("raise", "forget", "steps-raise", "steps-nonsense"):
                responses.append(b"failed " + ask.encode())
            elif ask.action not in SILENT:
                responses.append(b"answer " + ask.encode())
        return responses


@attrs.frozen
class Script:
    """An example: clients, and the commit times in milliseconds.

    Attributes:
        has_threads: whether commits run in several simulated threads, in a drawn order of their steps.
    """

    clients: tuple
    commit_delays: tuple
    commits_in_flight: int
    has_threads: bool = False
    resizes: tuple = ()
    fault: int = 0


sizes = st.lists(st.integers(0, 40), max_size=3).filter(lambda drawn: not drawn or any(drawn)).map(tuple)


def scripts(actions, *, clients_max=4, asks_max=12, asks_min=3, **fields):
    ask = st.builds(Ask, st.sampled_from(actions), st.integers(0, 1), st.integers(0, 4))
    client = st.builds(
        ClientScript,
        asks=st.lists(ask, min_size=asks_min, max_size=asks_max).map(tuple),
        bursts=st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple),
        pause=st.integers(0, 3),
        receive_sizes=sizes,
        send_sizes=sizes,
    )
    clients = st.lists(client, min_size=2, max_size=clients_max)
    return st.builds(
        Script,
        clients=clients.map(lambda drawn: tuple(one.numbered(index) for index, one in enumerate(drawn))),
        commit_delays=st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple),
        **{"commits_in_flight": st.integers(1, 3), "has_threads": st.booleans(), **fields},
    )


class ScriptedApplication:
    """Carries out the actions of requests.

    Attributes:
        throttled_until: end of the latest throttle by connection.
        unfinished: indexes of the connections with a request in several turns.
        in_turns: number of requests that took several turns.
        shown: entries in the order in which they became durable.
    """

    def __init__(self):
        self.shown = []
        self.throttled_until = {}
        self.unfinished = set()
        self.in_turns = 0

    def handle(self, request):
        ask = Ask.decode(request.frame)
        answer = Send(b"answer " + ask.encode())
        match ask.action:
            case "send":
                return answer
            case "pending":
                return Pending([ask.entry], answer, lambda: self.shown.append(ask.entry))
            case "quiet":
                return Pending([ask.entry], NO_OP, lambda: self.shown.append(ask.entry))
            case "nothing":
                return NO_OP
            case "parked":
                return self.complete_later(request, ask, answer)
            case "parked-pending":
                return self.complete_later(request, ask, Pending([ask.entry], answer))
            case "throttle":
                return self.throttle(request.connection, ask.delay * MILLISECOND, answer)
            case "close":
                return Close("asked for")
            case "raise":
                raise ValueError(ask)
            case "twice":
                request.complete(answer)
                return Send(b"a second answer")
            case "park-forget":
                return self.complete_later(request, ask, None)
            case "bad-part":
                return Send("text is no bytes")
        if ask.action.startswith("steps"):
            return go_on(self.in_steps(request, ask, answer))
        return None  # forget

    def in_steps(self, request, ask, answer):
        connection = request.connection.index
        self.unfinished.add(connection)
        self.in_turns += 1
        try:
            for _ in range(ask.delay + 1):
                yield None
            return (yield from self.last_steps(request, ask, answer))
        finally:
            self.unfinished.discard(connection)

    @staticmethod
    def last_steps(request, ask, answer):
        match ask.action:
            case "steps-pending":
                return Pending([ask.entry], answer)
            case "steps-commit":
                yield Pending([ask.entry], NO_OP)
            case "steps-work":
                return (yield Parked(lambda: answer))
            case "steps-wait":
                yield Waiting(lambda go_on: call_later(ask, go_on))
            case "steps-raise":
                raise ValueError(ask)
            case "steps-twice":
                request.complete(answer)
                return Send(b"a second answer")
            case "steps-nonsense":
                yield answer
        return answer

    def throttle(self, connection, seconds, answer):
        until = trio.current_time() + seconds
        connection.throttle(seconds)
        self.throttled_until[connection.index] = max(until, self.throttled_until.get(connection.index, 0.0))
        return answer

    @staticmethod
    def complete_later(request, ask, result):
        call_later(ask, lambda: request.complete(result))
        return PARKED

    def failed(self, request, error):
        return Send(b"failed " + bytes(request.frame))

    def connection_closed(self, session):
        pass


def call_later(ask, function):
    """Call `call` after the delay of a request."""

    async def call():
        await trio.sleep(ask.delay * MILLISECOND)
        function()

    trio.lowlevel.spawn_system_task(call)

"""What is known of a client when its requests are handled, over a whole server in both modes."""

import pytest
import trio
from trio.testing import MockClock

from pipeline_broker.apis.call import UNKNOWN_SOFTWARE
from pipeline_broker.security.principal import ANONYMOUS
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from stages.mode import MODES
from stages.testing.memory_server import open_memory_server
from tests.bad_input.raw_client import frame_of

both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
UNKNOWN = (UNKNOWN_SOFTWARE, UNKNOWN_SOFTWARE)
SECONDS_MAX = 60


class Watcher:
    """An application that notes what was known of the client before each of its requests."""

    def __init__(self, dispatcher):
        self.failed, self.connection_closed = dispatcher.failed, dispatcher.connection_closed
        self.dispatcher = dispatcher
        self.software = []
        self.sessions = []

    def handle(self, request):
        session = request.connection.session
        self.software.append(UNKNOWN if session is None else (session.software_name, session.software_version))
        result = self.dispatcher.handle(request)
        self.sessions.append(request.connection.session)
        return result


def watch(mode, dispatcher, *frames):
    """Send all frames at once; what was seen when the last one was answered."""
    watcher = Watcher(dispatcher)

    async def main():
        async with open_memory_server(mode, watcher) as memory:
            client = await memory.connect()
            with trio.fail_after(SECONDS_MAX):
                client.send(*frames)
                await client.receive_count(len(frames))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return watcher


@both_modes
@pytest.mark.parametrize("version", [3, 4])
def test_the_software_of_a_client_is_known_from_its_next_request_on(dispatcher, mode, version):
    """Behaviour 2: not in the ApiVersions request that tells it, and then in every later one."""
    named = frame_of(ApiVersionsRequest("a-library", "1.2"), version)
    seen = watch(mode, dispatcher, named, named, frame_of(ApiVersionsRequest(), 0))
    assert seen.software == [UNKNOWN, ("a-library", "1.2"), ("a-library", "1.2")]


@both_modes
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_software_of_an_old_client_stays_unknown(dispatcher, mode, version):
    """Behaviour 3: its ApiVersions request has no place for it."""
    seen = watch(mode, dispatcher, *[frame_of(ApiVersionsRequest("a-library", "1.2"), version)] * 2)
    assert seen.software == [UNKNOWN, UNKNOWN]


@both_modes
def test_a_plaintext_client_is_anonymous(dispatcher, mode):
    """Behaviour 26: its principal is User:ANONYMOUS."""
    seen = watch(mode, dispatcher, frame_of(ApiVersionsRequest(), 0))
    assert [session.principal for session in seen.sessions] == [ANONYMOUS]
    assert str(ANONYMOUS) == "User:ANONYMOUS"

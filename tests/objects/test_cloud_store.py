"""What a bucket's answers mean, from a server that gives one and the same to every request."""

import contextlib
import http.server
import socket
import threading

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.objects.check import check_store
from pipeline_broker.objects.opening import StoreRefused, open_store
from pipeline_broker.objects.store import Changed, Exists, Missing, Unavailable, Unsure, delete_all
from tests.objects.s3_servers import environment


@pytest.fixture(scope="module", autouse=True)
def threads_of_obstore():
    """They are started once, and stay."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment("http://127.0.0.1:1").items():
            patch.setenv(name, value)
        with contextlib.suppress(Unavailable):
            open_store("s3://bucket", SystemFileSystem()).list("")


@contextlib.contextmanager
def answering(monkeypatch, status):
    """A store whose server answers so, or closes the connection for None, and the requests that came."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append((self.command, self.headers))
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def __getattr__(self, name):
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        for name, value in environment(f"http://127.0.0.1:{server.server_port}").items():
            monkeypatch.setenv(name, value)
        try:
            yield open_store("s3://bucket/prefix", SystemFileSystem()), requests
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "created", "replaced"),
    [
        (412, Exists, Changed),
        (409, Exists, Changed),  # nothing was written; the one who knows that is the one who looks
        (404, Unsure, Changed),
        (403, Unsure, Unsure),
        (400, Unsure, Unsure),
        (500, Unsure, Unsure),
        (503, Unsure, Unsure),
        (None, Unsure, Unsure),
        (200, Unsure, Unsure),  # without a tag
    ],
)
def test_a_writing_is_sent_once_and_reported_as_it_was_answered(monkeypatch, status, created, replaced):
    with answering(monkeypatch, status) as (store, requests):
        with pytest.raises(created):
            store.create("a", [b"x"])
        with pytest.raises(replaced):
            store.replace("a", [b"x"], '"tag"')

    assert [command for command, _ in requests] == ["PUT", "PUT"]
    assert [(headers["If-None-Match"], headers["If-Match"]) for _, headers in requests] == [
        ("*", None),
        (None, '"tag"'),
    ]


@pytest.mark.parametrize("status", [403, 500, 503, None])
def test_what_may_be_asked_again_is_reported_as_passing(monkeypatch, status):
    with answering(monkeypatch, status) as (store, _):
        for ask in (
            lambda: store.read("a", 0, 1),
            lambda: store.read_end("a", 1),
            lambda: store.list("a/"),
            lambda: store.upload("a", [b"x"]),
            lambda: delete_all(store, ["a"]),
        ):
            with pytest.raises(Unavailable) as error:
                ask()
            assert "\n" not in str(error.value)


def test_what_is_not_there_is_missing(monkeypatch):
    with answering(monkeypatch, 404) as (store, _), pytest.raises(Missing):
        store.read("a", 0, 1)


def test_a_store_that_accepts_everything_is_refused(monkeypatch):
    """No tag, no condition, no content."""
    with answering(monkeypatch, 200) as (store, _), pytest.raises(StoreRefused):
        check_store(store)


def test_a_port_that_nobody_serves_is_refused(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for name, value in environment(f"http://127.0.0.1:{closed.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreRefused, match="Connection refused"):
            check_store(open_store("s3://bucket", SystemFileSystem()))


def test_a_server_that_accepts_and_says_nothing_is_refused_in_time(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, value in environment(f"http://127.0.0.1:{silent.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreRefused, match="no answer"):
            check_store(open_store("s3://bucket", SystemFileSystem()), seconds_max=0.5)
        prober = next(thread for thread in threading.enumerate() if thread.name == "check of the store")
    prober.join(20)

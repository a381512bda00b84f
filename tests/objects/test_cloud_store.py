"""The meaning of a bucket's answers, from a server that sends the same one to every request."""

import contextlib
import hashlib
import http.server
import socket
import threading
import time

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.objects import cloud_store
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


def variables(cloud, address):
    """Set environment variables, so that a store connects to this server."""
    return {
        "s3": environment(address),
        "az": {
            "AZURE_STORAGE_ENDPOINT": address,
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
        },
        "gs": {"GOOGLE_BASE_URL": address, "GOOGLE_ALLOW_HTTP": "true", "GOOGLE_BEARER_TOKEN": "token"},
    }[cloud]


@contextlib.contextmanager
def answering(monkeypatch, status, cloud="s3"):
    """Yield a store with a server that sends this answer, or closes the connection for None, and the received
    requests.
    """
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
        for name, value in variables(cloud, f"http://127.0.0.1:{server.server_port}").items():
            monkeypatch.setenv(name, value)
        try:
            yield open_store(f"{cloud}://bucket/prefix", SystemFileSystem()), requests
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "created", "replaced"),
    [
        (412, Exists, Changed),
        (409, Exists, Changed),  # nothing was written, which only a reader of the object learns
        (404, Unsure, Changed),
        (403, Unsure, Unsure),
        (400, Unsure, Unsure),
        (500, Unsure, Unsure),
        (503, Unsure, Unsure),
        (None, Unsure, Unsure),
        (200, Unsure, Unsure),  # without a tag
    ],
)
def test_a_write_is_sent_once_and_reported_as_it_was_answered(monkeypatch, status, created, replaced):
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


@pytest.mark.parametrize("cloud", ["az", "gs"])
@pytest.mark.parametrize("status", [503, None])
def test_a_write_to_azure_or_google_is_sent_once_too(monkeypatch, cloud, status):
    """A second copy would get the answer that the object exists, or has changed, and that would look like another
    writer's.
    """
    with answering(monkeypatch, status, cloud) as (store, requests):
        with pytest.raises(Unsure):
            store.create("a", [b"x"])
        with pytest.raises(Unsure):
            store.replace("a", [b"x"], "7")
    assert [command for command, _ in requests] == ["PUT", "PUT"]


def test_without_tls_the_signature_covers_the_body(monkeypatch):
    with answering(monkeypatch, 200) as (store, requests):
        for write in (store.upload, store.create):
            with pytest.raises((Unavailable, Unsure)):  # the answer has no tag
                write("a", [b"on ", b"its way"])
    hashes = {headers["x-amz-content-sha256"] for _, headers in requests}
    assert hashes == {hashlib.sha256(b"on its way").hexdigest()}


@pytest.mark.parametrize(("size", "asked"), [(10, "PUT"), (11, "POST")])
def test_an_object_that_is_larger_than_a_part_is_uploaded_in_parts(monkeypatch, size, asked):
    monkeypatch.setattr(cloud_store, "UPLOAD_PART_BYTES", 10)
    with answering(monkeypatch, 500) as (store, requests):
        with pytest.raises(Unavailable):
            store.upload("a", [bytes(size - 3), b"end"])
        assert [command for command, _ in requests] == [asked]


def test_a_silent_store_times_out_and_the_writer_is_unsure(monkeypatch):
    monkeypatch.setattr(cloud_store, "REQUEST_SECONDS_MAX", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, value in environment(f"http://127.0.0.1:{silent.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        store = open_store("s3://bucket", SystemFileSystem())
        began = time.monotonic()
        with pytest.raises(Unsure):
            store.create("a", [b"x"])
        with pytest.raises(Unavailable):
            store.upload("a", [b"x"])
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("status", [403, 500, 503, None])
def test_reads_that_may_be_repeated_are_unavailable(monkeypatch, status):
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


def test_a_read_of_a_missing_object_is_missing(monkeypatch):
    with answering(monkeypatch, 404) as (store, _), pytest.raises(Missing):
        store.read("a", 0, 1)


@pytest.fixture
def tried_for_a_moment(monkeypatch):
    """Shorten the time for which tries are repeated, which tests/objects/test_check.py covers."""
    monkeypatch.setattr("pipeline_broker.objects.check.TRIES_SECONDS_MAX", 0.5)


@pytest.mark.usefixtures("tried_for_a_moment")
def test_a_store_that_accepts_everything_is_refused(monkeypatch):
    """No tag, no condition, no content."""
    with answering(monkeypatch, 200) as (store, _), pytest.raises(StoreRefused):
        check_store(store)


@pytest.mark.usefixtures("tried_for_a_moment")
def test_a_port_without_a_server_is_refused(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for name, value in environment(f"http://127.0.0.1:{closed.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreRefused, match="Connection refused"):
            check_store(open_store("s3://bucket", SystemFileSystem()))


@pytest.mark.usefixtures("tried_for_a_moment")
def test_a_silent_server_is_refused_in_time(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, value in environment(f"http://127.0.0.1:{silent.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreRefused, match="no answer"):
            check_store(open_store("s3://bucket", SystemFileSystem()), seconds_max=0.5)
        prober = next(thread for thread in threading.enumerate() if thread.name == "check of the store")
    prober.join(20)


@contextlib.contextmanager
def comparing(monkeypatch, cloud, *, is_strict=False):
    """Yield a bucket of Azure or of Google with one object and its conditions, each with its own header.

    A strict one refuses to read beyond the end of the object.
    """
    contents, writes = {}, []
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                there = contents.get(self.path)
                if cloud == "gs":
                    wanted = self.headers["x-goog-if-generation-match"]
                    is_held = wanted is None or wanted == ("0" if there is None else str(there[1]))
                else:
                    is_absent = self.headers["If-None-Match"] != "*" or there is None
                    tag = self.headers["If-Match"]
                    is_held = is_absent and (tag is None or (there is not None and tag == f'"e{there[1]}"'))
                if is_held:
                    writes.append(self.path)
                    contents[self.path] = (content, len(writes))
            exists = 409 if cloud == "az" and self.headers["If-None-Match"] else 412
            self.answer(200 if is_held else exists, b"")

        def do_GET(self):
            found = contents.get(self.path)
            if found is None:
                self.answer(404, b"")
                return
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = found[0][int(first) : int(last) + 1]
            if is_strict and int(last) >= len(found[0]):
                self.answer(416, b"")
                return
            self.answer(206, part, **{"Content-Range": f"bytes {first}-{int(first) + len(part) - 1}/{len(found[0])}"})

        def do_HEAD(self):
            self.answer(200 if self.path in contents else 404, contents.get(self.path, (b"",))[0])

        def do_DELETE(self):
            self.answer(404 if contents.pop(self.path, None) is None else 204, b"")

        def answer(self, status, body, **headers):
            self.send_response(status)
            number = contents.get(self.path, (b"", 0))[1]
            known = {"ETag": f'"e{number}"', "x-goog-generation": str(number)}
            known["Last-Modified"] = "Tue, 24 Nov 2026 10:00:00 GMT"
            for name, value in {**known, **headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name, value in variables(cloud, f"http://127.0.0.1:{server.server_port}").items():
        monkeypatch.setenv(name, value)
    try:
        yield open_store(f"{cloud}://bucket/prefix", SystemFileSystem())
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("cloud", ["az", "gs"])
def test_conditions_are_those_of_azure_and_of_google_each_by_its_own_header(monkeypatch, cloud):
    with comparing(monkeypatch, cloud) as store:
        tag = store.create("a", [b"one", b" two"])
        with pytest.raises(Exists):
            store.create("a", [b"other"])
        part = store.read("a", 1, 3)
        assert (bytes(part.data), part.size_bytes, part.tag) == (b"ne ", 7, tag)
        second = store.replace("a", [b"three"], tag)
        for stale in (tag, "77"):
            with pytest.raises(Changed):
                store.replace("a", [b"four"], stale)
        with pytest.raises(Changed):
            store.replace("absent", [b"five"], second)
        assert bytes(store.read("a", 0, 99).data) == b"three"


def test_a_read_beyond_the_end_that_a_store_rejects_is_repeated_up_to_the_end(monkeypatch):
    with comparing(monkeypatch, "gs", is_strict=True) as store:
        tag = store.create("a", [b"abcde"])
        for start, size, content in ((0, 99, b"abcde"), (3, 3, b"de"), (3, 2, b"de"), (5, 1, b""), (9, 9, b"")):
            part = store.read("a", start, size)
            assert (bytes(part.data), part.start, part.size_bytes, part.tag) == (content, min(start, 5), 5, tag)


def test_existing_objects_are_deleted_together_with_missing_ones(monkeypatch):
    """Google deletes one by one. If the answer to a deletion is lost, some objects are missing when it is repeated."""
    names = [f"{number:03}" for number in range(30)]
    with comparing(monkeypatch, "gs") as store:
        for name in names[1::2]:
            store.create(name, [b"x"])
        delete_all(store, names)
        for name in names:
            with pytest.raises(Missing):
                store.read(name, 0, 1)


@pytest.mark.parametrize(("cloud", "variable"), [("az", "AZURE_STORAGE_ENDPOINT"), ("gs", "GOOGLE_BASE_URL")])
def test_a_server_without_tls_must_be_allowed(monkeypatch, cloud, variable):
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    with pytest.raises(StoreRefused, match=f"{variable} is not encrypted"):
        open_store(f"{cloud}://bucket", SystemFileSystem())

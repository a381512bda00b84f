"""A bucket's server that sends more than it declares, or foreign names: memory stays bounded."""

import contextlib
import http.server
import threading

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.objects.opening import open_store
from pipeline_broker.objects.store import Unavailable, list_all
from tests.objects.s3_servers import environment
from tests.objects.test_cloud_store import threads_of_obstore

__all__ = ["threads_of_obstore"]

PIECE = bytes(1 << 20)
PIECES_MAX = 200


@contextlib.contextmanager
def served(monkeypatch, answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        do_GET = answer  # noqa: N815 - http.server calls it so

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            for name, value in environment(f"http://127.0.0.1:{server.server_port}").items():
                monkeypatch.setenv(name, value)
            yield open_store("s3://bucket", SystemFileSystem())
        finally:
            server.shutdown()


def test_a_body_that_is_longer_than_its_range_is_cut_off(monkeypatch):
    sent = []

    def endless(handler):
        handler.send_response(206)
        for name, value in {
            "Content-Range": "bytes 0-99/100",
            "ETag": '"tag"',
            "Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT",
            "Content-Length": str(PIECES_MAX * len(PIECE)),
        }.items():
            handler.send_header(name, value)
        handler.end_headers()
        with contextlib.suppress(OSError):  # the client has closed
            for _ in range(PIECES_MAX):
                handler.wfile.write(PIECE)
                sent.append(len(PIECE))
        handler.close_connection = True

    with served(monkeypatch, endless) as store, pytest.raises(Unavailable, match="more than the 100 bytes"):
        store.read("log/1", 0, 100)
    assert len(sent) < PIECES_MAX // 4


def test_foreign_names_are_left_out_of_a_listing(monkeypatch):
    names = ["log/1", "log/a b", "log/\u00e4", "log/" + "x" * 600, "log/2"]
    entries = "".join(
        f"<Contents><Key>{name}</Key><LastModified>2000-01-01T00:00:00.000Z</LastModified><ETag>&quot;t&quot;</ETag>"
        "<Size>42949672960</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for name in names
    )
    page = (
        '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>'
        f"<IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    ).encode()

    def listing(handler):
        body = page if "start-after" not in handler.path else page.replace(entries.encode(), b"")
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with served(monkeypatch, listing) as store:
        found = list(list_all(store, "log/"))
    assert [each.name for each in found] == ["log/1", "log/2"]
    assert {each.size_bytes for each in found} == {40 << 30}

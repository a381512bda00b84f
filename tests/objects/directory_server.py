"""A store process with persistent data: the part of S3's protocol that obstore speaks, over a directory store.

    python -m tests.objects.directory_server PORT DIRECTORY

Objects that it has acknowledged survive a kill; the parts of an incomplete upload do not. It checks no signatures and
knows one bucket. It answers unknown requests with an error, so no test depends on less than it asks for.
"""

import http.server
import itertools
import re
import sys
import urllib.parse
from pathlib import Path
from xml.sax.saxutils import escape

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.store import Changed, Exists, Missing, ObjectStoreError

PAGE_MAX = 100
"""Names in a listing, fewer than other stores have: many pages are tried with few objects."""
MODIFIED = "2026-01-01T00:00:00.000Z"
MODIFIED_HTTP = "Thu, 01 Jan 2026 00:00:00 GMT"
WHOLE = 1 << 62
_KEY = re.compile(rb"<Key>([^<]+)</Key>")
_PART = re.compile(rb"<PartNumber>(\d+)</PartNumber>")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_): ...

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def do_PUT(self):
        body, name, query = self._read()
        tag = (self.headers.get("If-Match") or "").strip('"')
        if "uploadId" in query:
            self.server.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, tag=f"part-{query['partNumber']}")
        elif copied := self.headers.get("x-amz-copy-source"):
            _, _, source = urllib.parse.unquote(copied).lstrip("/").partition("/")
            self._try(lambda: self._copy(source, name))
        elif tag:
            self._try(lambda: self._answer(200, tag=self.server.store.replace(name, [body], tag)))
        elif self.headers.get("If-None-Match") == "*":
            self._try(lambda: self._answer(200, tag=self.server.store.create(name, [body])))
        else:
            self._try(lambda: self._upload(name, body))

    def do_POST(self):
        body, name, query = self._read()
        if "delete" in query:
            keys = [key.decode() for key in _KEY.findall(body)]
            self._try(lambda: self._delete(keys))
        elif "uploads" in query:
            upload = f"upload-{next(self.server.numbers)}"
            self.server.uploads[upload] = {}
            found = f"<UploadId>{upload}</UploadId>"
            self._xml(f"<InitiateMultipartUploadResult>{found}</InitiateMultipartUploadResult>")
        elif (parts := self.server.uploads.pop(query.get("uploadId"), None)) is not None:
            whole = b"".join(parts[int(number)] for number in _PART.findall(body))
            self._try(lambda: self._complete(name, whole))
        else:
            self._refuse(404, "NoSuchUpload")

    def do_GET(self):
        _, name, query = self._read()
        if query.get("list-type") == "2":
            self._try(lambda: self._list(query))
        else:
            self._try(lambda: self._get(name))

    def do_HEAD(self):
        _, name, _ = self._read()
        self._try(lambda: self._get(name))

    def do_DELETE(self):
        _, name, query = self._read()
        if "uploadId" in query:
            self.server.uploads.pop(query["uploadId"], None)
            self._answer(204)
        else:
            self._try(lambda: (self.server.store.delete([name]), self._answer(204)))

    def _read(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionResetError
        path, _, query = self.path.partition("?")
        _, _, name = urllib.parse.unquote(path).lstrip("/").partition("/")
        return body, name, dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def _try(self, do):
        try:
            do()
        except (Exists, Changed):
            self._refuse(412, "PreconditionFailed")
        except (Missing, ValueError):  # also a name that no object can have
            self._refuse(404, "NoSuchKey")
        except ObjectStoreError:
            self._refuse(503, "SlowDown")

    def _upload(self, name, body):
        self.server.store.upload(name, [body])
        self._answer(200, tag="uploaded")

    def _copy(self, source, name):
        self.server.store.copy(source, name)
        self._xml("<CopyObjectResult><ETag>copied</ETag></CopyObjectResult>")

    def _delete(self, names):
        self.server.store.delete(names)
        deleted = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        self._xml(f"<DeleteResult>{deleted}</DeleteResult>")

    def _complete(self, name, whole):
        self.server.store.upload(name, [whole])
        self._xml("<CompleteMultipartUploadResult><ETag>uploaded</ETag></CompleteMultipartUploadResult>")

    def _get(self, name):
        store = self.server.store
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            part = store.read(name, 0, 0 if self.command == "HEAD" else WHOLE)
            self._answer(200, part.data, tag=part.tag, length=part.size_bytes)
            return
        first, last = match.groups()
        part = store.read(name, int(first), int(last) - int(first) + 1) if first else store.read_end(name, int(last))
        if not len(part.data):
            self._refuse(416, "InvalidRange")
            return
        place = f"bytes {part.start}-{part.start + len(part.data) - 1}/{part.size_bytes}"
        self._answer(206, part.data, tag=part.tag, length=len(part.data), place=place)

    def _list(self, query):
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        folder = prefix.rpartition("/")[0]
        page = self.server.store.list(f"{folder}/" if folder else "", after)[:PAGE_MAX]
        items = "".join(
            f"<Contents><Key>{escape(each.name)}</Key><LastModified>{MODIFIED}</LastModified>"
            f"<ETag>listed</ETag><Size>{each.size_bytes}</Size></Contents>"
            for each in page
            if each.name.startswith(prefix)
        )
        more = (
            f"<NextContinuationToken>{escape(page[-1].name)}</NextContinuationToken>" if len(page) == PAGE_MAX else ""
        )
        is_more = str(bool(more)).lower()
        self._xml(f"<ListBucketResult><IsTruncated>{is_more}</IsTruncated>{more}{items}</ListBucketResult>")

    def _xml(self, text):
        self._answer(200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode())

    def _refuse(self, status, code):
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def _answer(self, status, body=b"", *, tag=None, length=None, place=None):
        self.send_response(status)
        headers = {"Content-Length": len(body) if length is None else length, "Last-Modified": MODIFIED_HTTP}
        if tag is not None:
            headers["ETag"] = f'"{tag}"'
        if place is not None:
            headers["Content-Range"] = place
        for header, value in headers.items():
            self.send_header(header, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port, directory):
        self.store = DirectoryStore(SystemFileSystem(), Path(directory))
        self.uploads = {}
        self.numbers = itertools.count()
        super().__init__(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    Server(int(sys.argv[1]), sys.argv[2]).serve_forever(0.05)

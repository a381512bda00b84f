"""A proxy between a broker and its store that loses answers, and forwards requests late or twice.

It does only what a network could do in which proxies repeat requests. While it is active, each request draws its fate.
Requests of the startup check are never harmed, because a startup refuses an unreliable store at once. A late request is
forwarded at its time, even if the broker that sent it is dead.
"""

import collections
import http.client
import http.server
import random
import threading
import time

FATES = ("lost before", "lost after", "late", "late", "twice", "again later", "refused", "conflict", "slow")
LATE_SECONDS = (0.05, 3.0)
SLOW_SECONDS = (0.1, 1.0)
UPSTREAM_SECONDS_MAX = 20.0
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}
CHECK = "/check/"


class StoreProxy(http.server.ThreadingHTTPServer):
    """The proxy; `port` is the store's, `server_port` its own.

    Attributes:
        share: fraction of requests that meet a fate; 0 forwards all.
        counts: number of each fate, and of "done".
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, seed, port):
        self.share = 0.0
        self.counts = collections.Counter()
        self._dice = random.Random(f"proxy {seed}")
        self._lock = threading.Lock()
        self._store_port = port
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()

    def draw(self, path):
        """Return the fate of a request, and its delay in seconds."""
        with self._lock:
            is_done = CHECK in path or self._dice.random() >= self.share
            fate = "done" if is_done else self._dice.choice(FATES)
            self.counts[fate] += 1
            return fate, self._dice.uniform(*(SLOW_SECONDS if fate == "slow" else LATE_SECONDS))

    def forward(self, request):
        """Return status, headers and body of the store's answer; None if it does not answer."""
        method, path, headers, body = request
        connection = http.client.HTTPConnection("127.0.0.1", self._store_port, timeout=UPSTREAM_SECONDS_MAX)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def forward_later(self, request, seconds):
        """Forward a request whose sender has stopped waiting."""
        thread = threading.Timer(seconds, self.forward, [request])
        thread.daemon = True
        thread.start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_): ...

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self._pass
        raise AttributeError(name)

    def _pass(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = [(name, value) for name, value in self.headers.items() if name.lower() != "connection"]
        request = self.command, self.path, headers, body
        fate, seconds = self.server.draw(self.path)
        answer = None
        if fate == "refused":
            answer = 503, [], b""
        elif fate == "conflict" and {"If-None-Match", "If-Match"} & {name.title() for name, _ in headers}:
            answer = 409, [], b""
        elif fate == "late":
            self.server.forward_later(request, seconds)
        elif fate != "lost before":
            if fate == "slow":
                time.sleep(seconds)
            answer = self.server.forward(request)
            if fate == "twice":
                answer = self.server.forward(request)
            elif fate == "again later":
                self.server.forward_later(request, seconds)
            elif fate == "lost after":
                answer = None
        if answer is None:
            self.close_connection = True
        else:
            self._answer(*answer)

    def _answer(self, status, headers, body):
        self.send_response_only(status)
        length = {name.lower(): value for name, value in headers}.get("content-length")
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        self.wfile.write(body)

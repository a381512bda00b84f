"""An identity provider in a thread: a token endpoint for client credentials that records its requests."""

import base64
import contextlib
import http.server
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable

import attrs

from tests.security.tokens import jwk, rsa_key, token, write_keys

CLIENT_ID, CLIENT_SECRET = "ada", "it is /+ secret"


def bearer(seconds=3600, **claims):
    """Return a token that brokers with `bearer_settings` accept."""
    now = int(time.time())
    return token(iat=now, exp=now + seconds, aud="broker", **claims)


def bearer_settings(folder):
    """Return the settings of a broker that accepts tokens of this provider."""
    write_keys(folder / "jwks.json", jwk(rsa_key(), "r"))
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/jwks.json",
        "sasl.oauthbearer.expected.audience": "broker",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": module,
    }


@attrs.define
class Asked:
    path: str
    form: dict
    proof: str


@attrs.define
class Provider:
    """The provider.

    Attributes:
        answers: the first responses, as (status, object or bytes); after them the right secret gets a token.
        life_s: the lifetime of tokens in the response.
        meanwhile: called before each response.
    """

    url: str = ""
    life_s: object = 3600
    answers: list = attrs.field(factory=list)
    asked: list[Asked] = attrs.field(factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def answer(self, asked):
        self.meanwhile()
        self.asked.append(asked)
        if self.answers:
            return self.answers.pop(0)
        if asked.proof != f"{CLIENT_ID}:{CLIENT_SECRET}":
            return 401, {"error": "invalid_client", "error_description": "unknown\nclient"}
        if asked.form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        return 200, {"access_token": bearer(), "token_type": "Bearer", "expires_in": self.life_s}


@contextlib.contextmanager
def provider(certificate=None):
    """Run a provider during the block, with TLS if it has a certificate."""
    found = Provider()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            proof = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            status, content = found.answer(Asked(self.path, form, proof))
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Type", "application/json")
            if 300 <= status < 400:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        found.url = f"http{'' if certificate is None else 's'}://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()

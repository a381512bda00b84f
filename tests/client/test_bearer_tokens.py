"""OAUTHBEARER tokens: sources, renewal, rejection, and secrets that are never printed."""

import os
import socket
import threading
from types import SimpleNamespace

import attrs
import pytest
import trustme

from pipeline_broker.client import bearer_tokens
from pipeline_broker.client.bearer_tokens import TOKEN_BYTES_MAX, Bearer, TokenFile, read_bearer
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import read_security
from pipeline_broker.security.oauthbearer import BearerToken, InvalidTokenError, OAuthBearerServer
from pipeline_broker.security.sasl import AuthenticationFailedError
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, provider
from tests.measure.load.conversations import talk

URL = "sasl.oauthbearer.token.endpoint.url"
NO_VALID_TOKEN = "has no valid token: a token is one word of letters, digits and -._~+/="
SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture
def identity():
    with provider() as found:
        yield found


def credentials(url, **changes):
    found = {
        URL: url,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
    }
    return found | {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in changes.items()}


def failure(source):
    with pytest.raises(ClientError) as caught:
        source.token()
    line = str(caught.value)
    assert "\n" not in line
    assert CLIENT_SECRET not in line
    return line


@attrs.frozen
class StaticTokens:
    text: str

    def token(self):
        return self.text


def knows(expected):
    def validate(text):
        if text != expected:
            raise InvalidTokenError("another")
        return BearerToken("ada", 0)

    return validate


def test_our_server_accepts_the_token():
    assert talk(Bearer(StaticTokens("a.b-c_d==")), OAuthBearerServer(knows("a.b-c_d=="))) == "ada"


def test_extensions_are_sent():
    bearer = read_bearer({URL: "file:///t", "sasl.oauthbearer.extensions": "cluster=lkc-1, pool=p 2"})
    shown = next(attrs.evolve(bearer, source=StaticTokens("t")).converse())
    assert shown == b"n,,\x01auth=Bearer t\x01cluster=lkc-1\x01pool=p 2\x01\x01"
    assert talk(attrs.evolve(bearer, source=StaticTokens("t")), OAuthBearerServer(knows("t"))) == "ada"


def test_a_rejection_is_acknowledged_and_ends_the_exchange():
    server = OAuthBearerServer(knows("good"))
    with pytest.raises(AuthenticationFailedError):
        talk(Bearer(StaticTokens("bad")), server)


def test_a_broker_that_continues_after_a_rejection_is_an_error():
    conversation = Bearer(StaticTokens("t")).converse()
    next(conversation)
    assert conversation.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(ClientError, match=r"the broker rejects the token: invalid_token$"):
        conversation.send(b"")


def test_a_file_is_read_each_time(tmp_path):
    path = tmp_path / "my token"
    path.write_text("first\n")
    bearer = read_bearer({URL: f"file://{tmp_path}/my%20token"})
    assert bearer.source == TokenFile(path)
    assert bearer.source.token() == "first"
    path.write_text("second")
    assert bearer.source.token() == "second"


@pytest.mark.parametrize("content", [b"", b"two words", b"a\x01auth=b", b"\xff"])
def test_a_file_without_a_token_is_named_and_not_printed(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    assert failure(TokenFile(tmp_path / "t")) == f"{tmp_path}/t {NO_VALID_TOKEN}"


def test_a_file_that_is_too_large_or_not_regular_is_not_read(tmp_path):
    (tmp_path / "t").write_bytes(b"a" * (TOKEN_BYTES_MAX + 1))
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("t", "it has 65537 bytes, but at most 65536 are allowed"),
        ("pipe", "it is not a regular file"),
    ):
        assert failure(TokenFile(tmp_path / name)) == f"the token in {tmp_path / name} cannot be read: {reason}"


def test_a_missing_file_is_named(tmp_path):
    assert failure(TokenFile(tmp_path / "t")) == f"the token in {tmp_path}/t cannot be read: No such file or directory"


def test_all_connections_share_one_request_to_the_provider(identity):
    source = read_bearer(credentials(identity.url, scope="a b")).source
    found = []
    threads = [threading.Thread(target=lambda: found.append(source.token())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    (asked,) = identity.asked
    assert asked.form == {"grant_type": ["client_credentials"], "scope": ["a b"]}


@pytest.mark.parametrize("life_s", [0, None, "soon", float("nan")])
def test_an_expired_token_is_replaced_and_so_is_one_of_unknown_lifetime(identity, life_s):
    identity.life_s = life_s
    source = read_bearer(credentials(identity.url)).source
    assert source.token()
    assert source.token()
    assert [asked.form for asked in identity.asked] == 2 * [{"grant_type": ["client_credentials"]}]


def test_a_token_is_used_for_four_fifths_of_its_lifetime_since_the_request(identity, monkeypatch):
    """The provider may have issued the token at the time of the request, however late its response arrived."""
    now = [1000.0]
    monkeypatch.setattr(bearer_tokens, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def late():
        now[0] += 50

    identity.life_s, identity.meanwhile = 100, late
    source = read_bearer(credentials(identity.url)).source
    first = source.token()
    for seconds, asked in ((1079.9, 1), (1080.0, 2)):
        now[0] = seconds
        assert bool(source.token()) is bool(first)
        assert len(identity.asked) == asked


@pytest.mark.parametrize("status", [200, 503])
def test_a_truncated_response_of_the_provider_is_one_line(monkeypatch, status):
    monkeypatch.setattr(bearer_tokens, "PROVIDER_SECONDS_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/token"

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b'HTTP/1.1 %d No\r\nContent-Length: 99\r\n\r\n{"' % status)
                connection.recv(1 << 16)
                is_left.wait(30)

        is_left = threading.Event()
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            assert failure(read_bearer(credentials(url)).source).startswith(f"{url} gave no token: ")
        finally:
            is_left.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, {"error": "invalid_client", "error_description": "unknown\nclient"}),
         "gave no token: HTTP 401 Unauthorized: invalid_client: unknown client"),
        ((500, b"<html>"), "gave no token: HTTP 500 Internal Server Error"),
        ((302, b""), "gave no token: HTTP 302 Found"),
        ((200, b"nonsense"), "did not answer with a JSON object"),
        ((200, ["a"]), "did not answer with a JSON object"),
        ((200, b"[" * TOKEN_BYTES_MAX), "did not answer with a JSON object"),
        ((200, b" " * (TOKEN_BYTES_MAX + 1)), "did not answer with a JSON object"),
        ((200, {"token": "x"}), "gave no access_token. Check that this is a token endpoint"),
        ((200, {"access_token": "two words"}), NO_VALID_TOKEN),
    ],
)  # fmt: skip
def test_a_response_without_a_token_is_one_line_and_no_redirect_is_followed(identity, answer, words):
    identity.answers.append(answer)
    assert failure(read_bearer(credentials(identity.url)).source) == f"{identity.url} {words}"
    assert [asked.path for asked in identity.asked] == ["/token"]


def test_an_unreachable_provider_is_one_line():
    line = failure(read_bearer(credentials("http://127.0.0.1:1/token")).source)
    assert line == "http://127.0.0.1:1/token gave no token: Connection refused"


def test_the_certificate_of_a_provider_is_verified(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    with provider(tmp_path / "server.pem") as identity:
        known = credentials(identity.url) | {"https.ca.location": str(tmp_path / "authority.pem")}
        assert read_bearer(known).source.token()
        assert failure(read_bearer(credentials(identity.url)).source).endswith(
            "gave no token: unable to get local issuer certificate"
        )
        assert len(identity.asked) == 1


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        ({}, f"OAUTHBEARER needs {URL}. Set it to https://HOST/PATH of a token endpoint, or file:///PATH of a token"),
        ({URL: "ftp://x/y"}, f"OAUTHBEARER needs {URL}"),
        ({URL: "file://elsewhere/x"}, f"OAUTHBEARER needs {URL}"),
        ({URL: "https://idp/t"}, "needs sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"),
        (credentials("file:///t"), "sasl.oauthbearer.client.id has no effect"),
        (credentials("https://idp/t", method="default"), "sasl.oauthbearer.method 'default' is not supported"),
        (credentials("https://idp/t", extensions="auth=x"), "sasl.oauthbearer.extensions is not of the form"),
        (credentials("https://idp/t", extensions="x"), "sasl.oauthbearer.extensions is not of the form"),
        ({**credentials("https://idp/t"), "https.ca.location": "/nowhere"}, "/nowhere: No such file"),
        ({URL: "file:///t", "sasl.password": "x"}, "sasl.password has no effect with sasl.mechanism=OAUTHBEARER"),
        ({URL: "file:///t", "sasl.mechanism": "PLAIN"}, f"{URL} has no effect with sasl.mechanism=PLAIN"),
        ({URL: "file:///t", "security.protocol": "plaintext"}, "Set security.protocol=sasl_plaintext"),
    ],
)  # fmt: skip
def test_an_invalid_property_is_one_line(properties, refusal):
    with pytest.raises(ClientError) as caught:
        read_security({**SASL, **properties})
    assert refusal in str(caught.value)
    assert "\n" not in str(caught.value)
    assert CLIENT_SECRET not in str(caught.value)


def test_secrets_are_not_printed(identity):
    security = read_security({**SASL, **credentials(identity.url)})
    security.bearer.source.token()
    assert CLIENT_SECRET not in repr(security) + repr(security.bearer) + repr(security.bearer.source)

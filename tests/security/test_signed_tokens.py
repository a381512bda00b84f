"""A token is only valid if a key of the file has signed it, with that key's algorithm, for this audience and time."""

import hashlib
import hmac
import json
import subprocess
import sys
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.oauthbearer import BearerToken, InvalidTokenError
from pipeline_broker.security.signed_tokens import (
    FILE_BYTES_MAX,
    KEYS_MAX,
    KeyFile,
    TokenRules,
    TokenValidator,
    key_file_path,
)
from tests.security.tokens import NOW_SECONDS, claims, ec_key, forged, jwk, part, rsa_key, token, write_keys

ALICE = BearerToken("alice", (NOW_SECONDS + 3600) * 1000)


@pytest.fixture
def path(tmp_path):
    return write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r"), jwk(ec_key(), "e"))


@pytest.fixture
def validate(path):
    return validator(path)


def validator(path, now_seconds=NOW_SECONDS, **rules):
    return TokenValidator(KeyFile(path), TokenRules(**rules), lambda: now_seconds * 1000).validate


def refused(validate, text):
    with pytest.raises(InvalidTokenError) as caught:
        validate(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "key_id", "algorithm"),
    [
        (rsa_key(), "r", "RS256"),
        (rsa_key(), "r", "RS512"),
        (rsa_key(), "r", "PS256"),
        (ec_key(), "e", "ES256"),
    ],
)
def test_a_token_of_a_key_of_the_file_proves_its_subject(validate, key, key_id, algorithm):
    assert validate(token(key, algorithm, {"kid": key_id})) == ALICE


PUBLIC_PEM = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_with_the_public_key(header):
    """Return the classic attack: an HMAC with the public key as its secret, which every attacker has."""
    said = f"{part(header)}.{part(claims())}"
    return f"{said}.{part(hmac.digest(PUBLIC_PEM, said.encode(), hashlib.sha256))}"


def with_another_payload():
    header, _, signature = token().split(".")
    return f"{header}.{part(claims(sub='admin'))}.{signature}"


def with_an_embedded_key():
    other = rsa_key(1)
    return token(other, headers={"kid": "r", "jwk": jwk(other, "r"), "jku": "file:///tmp/x"})


FORGERIES = {
    "nothing": "",
    "no token": "abc",
    "two parts": "a.b",
    "empty parts": "..",
    "no signature": forged({"alg": "none", "kid": "r"}),
    "no signature, in another case": forged({"alg": "nOnE", "kid": "r"}),
    "no algorithm": forged({"kid": "r"}),
    "no kid": token(headers={}),
    "an unknown kid": token(headers={"kid": "x"}),
    "a kid that is not a string": forged({"alg": "RS256", "kid": 1}),
    "another key of the same kid": token(rsa_key(1)),
    "the kid of another key": token(headers={"kid": "e"}),
    "HMAC with the public key": signed_with_the_public_key({"alg": "HS256", "kid": "r"}),
    "HMAC that says RS256": signed_with_the_public_key({"alg": "RS256", "kid": "r"}),
    "another payload": with_another_payload(),
    "a signature cut short": token()[:-8],
    "a key of its own": with_an_embedded_key(),
    "extensions that must be understood": token(headers={"kid": "r", "crit": ["x"], "x": 1}),
    "extensions that PyJWT understands": token(headers={"kid": "r", "crit": ["b64"], "b64": True}),
    "a payload that is not an object": jwt.PyJWS().encode(b"[]", rsa_key(), "RS256", {"kid": "r"}),
    "a payload that is not JSON": jwt.PyJWS().encode(b"x", rsa_key(), "RS256", {"kid": "r"}),
    "a deep payload": jwt.PyJWS().encode(b"[" * 20_000, rsa_key(), "RS256", {"kid": "r"}),
}


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_proves_nothing(validate, text):
    reason = refused(validate, text)
    assert "alice" not in reason


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": None},
        {"iat": None},
        {"exp": NOW_SECONDS - 30},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": -1},
        {"exp": 1e300},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"exp": 10**400},
        {"nbf": NOW_SECONDS + 31},
        {"iat": NOW_SECONDS + 31},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"scope": 7},
        {"scope": ["a", 7]},
        {"scope": ["a", "a"]},
    ],
    ids=str,
)
def test_claims_that_do_not_hold_prove_nothing(validate, changes):
    refused(validate, token(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_SECONDS - 29},
        {"nbf": NOW_SECONDS + 30},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
        {"scope": []},
        {"exp": NOW_SECONDS + 0.5},
    ],
    ids=str,
)
def test_clocks_may_differ_a_little_and_scopes_mean_nothing(validate, changes):
    assert validate(token(**changes)).name == "alice"


@pytest.mark.parametrize(
    ("changes", "is_valid"),
    [
        ({}, False),
        ({"iss": "us"}, False),
        ({"aud": "broker"}, False),
        ({"iss": "us", "aud": "broker"}, True),
        ({"iss": "us", "aud": ["x", "other"]}, True),
        ({"iss": "us", "aud": ["x"]}, False),
        ({"iss": "them", "aud": "broker"}, False),
        ({"iss": ["us"], "aud": "broker"}, False),
        ({"iss": "us", "aud": {"broker": 1}}, False),
    ],
    ids=str,
)
def test_an_expected_issuer_and_audience_are_required(path, changes, is_valid):
    validate = validator(path, expected_issuer="us", expected_audience=frozenset({"broker", "other"}))
    text = token(**changes)
    if is_valid:
        assert validate(text).name == "alice"
    else:
        refused(validate, text)


def test_any_issuer_is_accepted_if_none_is_expected(validate):
    assert validate(token(iss="anybody")) == ALICE


def test_the_name_can_be_in_another_claim(path):
    assert validator(path, sub_claim_name="client_id")(token(client_id="bob")).name == "bob"


def test_the_skew_can_be_nothing(path):
    refused(validator(path, clock_skew_seconds=0), token(exp=NOW_SECONDS))


def test_a_changed_file_counts_at_once_and_a_missing_one_leaves_no_keys(path, validate):
    other = token(rsa_key(1), headers={"kid": "new"})
    refused(validate, other)
    write_keys(path.with_suffix(".new"), jwk(rsa_key(1), "new"))
    path.with_suffix(".new").replace(path)
    assert validate(other) == ALICE
    assert "kid is unknown" in refused(validate, token())
    path.unlink()
    refused(validate, other)
    path.write_text("{")
    refused(validate, other)
    write_keys(path, jwk(rsa_key(), "r"))
    assert validate(token()) == ALICE


def test_missing_keys_are_logged_once(path, validate, caplog):
    path.unlink()
    for _ in range(2):
        refused(validate, token())
    (told,) = caplog.messages
    assert str(path) in told
    caplog.clear()


def test_entries_that_are_not_keys_are_skipped(tmp_path):
    path = write_keys(tmp_path / "jwks.json", 7, "key", jwk(rsa_key(), "r"))
    assert validator(path)(token()) == ALICE


def test_an_unchanged_file_that_returns_counts_again(path, validate):
    away = path.with_suffix(".away")
    path.rename(away)
    refused(validate, token())
    away.rename(path)
    assert validate(token()) == ALICE


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "[" * 100_000,
        '{"keys": {}}',
        '{"keys": []}',
        json.dumps({"keys": [jwk(rsa_key(), "r", use="enc")]}),
        json.dumps({"keys": [jwk(rsa_key(), 7)]}),
        json.dumps({"keys": [jwk(rsa_key(), "r", alg="HS256")]}),
        json.dumps({"keys": [jwk(ec_key(), "e", alg="ES384")]}),
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "r"}]}),
        json.dumps({"keys": [jwk(rsa_key(), "r"), jwk(rsa_key(1), "r")]}),
        json.dumps({"keys": [{"kty": "RSA", "n": "!", "e": "AQAB", "kid": "r"}]}),
        json.dumps({"keys": [jwk(rsa_key(bits=1024), "r")]}),
        json.dumps({"keys": [jwk(rsa_key(), str(number)) for number in range(1001)]}),
        " " * ((1 << 20) + 1),
    ],
    ids=lambda content: content[:40],
)
def test_a_file_without_a_key_of_use_is_refused_at_the_start(tmp_path, content):
    path = tmp_path / "jwks.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="jwks"):
        KeyFile(path)


def test_a_key_whose_type_is_the_name_of_a_curve_is_skipped(tmp_path):
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [{"kty": "P-256", "kid": "odd"}, jwk(ec_key(), "e")]}))
    keys = KeyFile(path)
    assert keys.find("odd") is None
    assert keys.find("e") is not None


def test_a_file_is_read_up_to_its_bounds(tmp_path):
    """A quarter of a mebibyte and a hundred keys, of which the last counts like the first."""
    keys = [jwk(rsa_key(), str(number)) for number in range(KEYS_MAX)]
    path = tmp_path / "jwks.json"
    text = json.dumps({"keys": keys})
    path.write_text(text + " " * (FILE_BYTES_MAX - len(text)))
    assert path.stat().st_size == FILE_BYTES_MAX
    validate = validator(path)
    for key_id in ("0", str(KEYS_MAX - 1)):
        assert validate(token(headers={"kid": key_id})) == ALICE
    with path.open("a") as file:
        file.write(" ")
    with pytest.raises(ConfigError, match="262145 bytes, but at most 262144 are allowed"):
        KeyFile(path)


@pytest.mark.parametrize("path", ["/dev/ptmx", "/dev/zero", "/dev/stdin", "/proc/self/mem", "/proc", "/no/such\0file"])
def test_only_a_regular_file_is_read(path):
    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url: cannot use") as caught:
        KeyFile(Path(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("content", "said"), [('{"keys": {"a": 1}}', "is not a list"), ("{}", "is not a JSON object")])
def test_the_refusal_of_a_malformed_file_names_the_fault(tmp_path, content, said):
    path = tmp_path / "jwks.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said):
        KeyFile(path)


def test_a_token_may_last_for_long_and_not_for_longer_than_a_time_can_be(validate):
    assert validate(token(exp=2**40)) == BearerToken("alice", 2**40 * 1000)
    assert "is not a time" in refused(validate, token(exp=2**40 + 1))
    assert "is not a time" in refused(validate, token(nbf=-1))
    assert validate(token(nbf=0)) == ALICE


def test_a_missing_file_is_refused_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        KeyFile(tmp_path / "missing.json")


def test_a_token_without_a_key_id_is_refused_before_the_keys_are_searched(validate):
    assert refused(validate, token(headers={})) == "it has no kid, or has mandatory extensions"


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
def test_true_is_not_a_time(path, name):
    assert "is not a time" in refused(validator(path, now_seconds=0), token(**{"iat": 0, name: True}))


@pytest.mark.parametrize("scope", ["a b", ["a", "b"], []])
def test_a_scope_is_a_text_or_texts(validate, scope):
    assert validate(token(scope=scope)) == ALICE


@pytest.mark.parametrize("scope", [" ", [" "], ["a", ""], [1], 1, {}])
def test_a_scope_of_anything_else_proves_nothing(validate, scope):
    assert "its scope" in refused(validate, token(scope=scope))


def test_a_key_that_names_its_algorithm_checks_no_other(tmp_path):
    validate = validator(write_keys(tmp_path / "jwks.json", jwk(rsa_key(), "r", alg="RS256")))
    assert validate(token()) == ALICE
    refused(validate, token(algorithm="RS384"))


def test_a_file_url_names_its_file():
    assert str(key_file_path("file:///etc/a%20b.json")) == "/etc/a b.json"


@pytest.mark.parametrize(
    "url", ["https://idp.example/jwks", "http://x", "file://host/x", "jwks.json", "/etc/x", "file:x", ""]
)
def test_any_other_url_is_refused_in_one_line(url):
    with pytest.raises(ConfigError, match="from a local file") as caught:
        key_file_path(url)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_error_names_the_package_to_install(tmp_path):
    program = (
        "import sys; sys.modules['jwt'] = None\n"
        "from pipeline_broker.config.properties import ConfigError\n"
        "from pipeline_broker.security.offer import read_offer\n"
        "try:\n    read_offer({'sasl.enabled.mechanisms': 'OAUTHBEARER'}, None, None)\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'pipeline-broker[oauth]'" in done.stdout

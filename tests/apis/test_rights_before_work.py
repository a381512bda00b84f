"""A client without rights causes no work: its values are neither opened, derived, resolved nor compiled.

The requests are made from the schemas of all served APIs, so a new API is included automatically. Each is sent with
texts that would cause work: paths, keys that take long to open, addresses, patterns, numbers. The answers may differ
only in the texts that the client sent itself.
"""

import contextlib
import hashlib
import socket
import ssl
import sys

import attrs
import pytest
import re2
import trustme

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.security.authorizer import Authorizer
from pipeline_broker.security.refusals import Refusals
from pipeline_broker.wire.registry import ApiKey, message_classes
from pipeline_broker.wire.schema import fields_of, resolve
from stages.request import Close
from tests.apis.desk import Desk
from tests.bad_input.raw_client import each_served_version
from tests.wire.generated import filled, sample

ANSWERED_BY_VALUE = {
    ApiKey.API_VERSIONS: "open to all clients; validates the names of their software",
    ApiKey.SASL_HANDSHAKE: "sent before authentication",
    ApiKey.SASL_AUTHENTICATE: "sent before authentication",
    ApiKey.PRODUCE: "the batch header decides whether a transactional id is authorized",
}
KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----"
TEMPTATIONS = (
    "plain",
    "/etc/passwd",
    "/dev/ptmx",
    KEY,
    "localhost:1",
    "PLAINTEXT://localhost:1",
    r"(?:a?){100}\pL",
    "RULE:(a+)+$/$1/",
    "client_id=(a+)+$",
    "9" * 400,
    "by_duration:P1D",
    "NaN",
)
SETTINGS = (
    "listener.name.ssl.ssl.keystore.location",
    "listener.name.ssl.ssl.keystore.key",
    "listener.name.ssl.ssl.principal.mapping.rules",
    "listeners",
    "log.retention.ms",
    "retention.ms",
    "min.cleanable.dirty.ratio",
    "share.auto.offset.reset",
    "match",
    "unknown",
)
RESOURCE_TYPES = (2, 4, 8, 16, 32)


class Watch:
    """Records the work done while it watches."""

    def __init__(self):
        self.done, self._is_on = [], False
        sys.addaudithook(self._hook)  # for good: a hook cannot be removed

    def _hook(self, event, args):
        if self._is_on and event in {"open", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind"}:
            self.done.append((event, args[0]))

    def counting(self, monkeypatch, owner, name):
        function = getattr(owner, name)

        def counted(*args, **kwargs):
            if self._is_on:
                self.done.append((name, args[:1]))
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    @contextlib.contextmanager
    def watching(self):
        self.done.clear()
        self._is_on = True
        try:
            yield self.done
        finally:
            self._is_on = False


WATCH = Watch()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A broker whose listener has a key store, and whose authorizer allows nothing."""
    store = tmp_path_factory.mktemp("keys") / "store.pem"
    store.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={store}",
        "pipeline.telemetry.file=/nowhere",
    )
    desk = Desk(*settings)
    listeners = BrokerListeners(parse_settings([tuple(each.split("=", 1)) for each in settings])[0])
    desk.broker.ports = attrs.evolve(desk.broker.ports, check_config=listeners.check)
    desk.broker.authorizer = Authorizer(desk.broker.acls, denials=Refusals(lambda: desk.now_ms))
    yield desk
    listeners.close()


@pytest.fixture
def watch(monkeypatch):
    WATCH.counting(monkeypatch, hashlib, "pbkdf2_hmac")
    WATCH.counting(monkeypatch, hashlib, "scrypt")
    WATCH.counting(monkeypatch, re2, "compile")
    WATCH.counting(monkeypatch, socket, "create_connection")
    WATCH.counting(monkeypatch, ssl, "create_default_context")
    return WATCH


def tempted(message, structure, version, text, setting, resource_type):
    """A message in which every text, including the value of one setting, is the given one."""
    changes = {}
    for field in fields_of(structure):
        if version not in field.versions:
            continue
        nested = resolve(message, field.type)
        if nested:
            one = tempted(message, nested, version, text, setting, resource_type)
        elif field.type == "string":
            one = setting if field.name == "name" and "onfig" in structure.__name__ else text
        elif field.type in {"bytes", "records"}:
            one = text.encode()
        elif field.type == "float64":
            one = float("nan") if text == "NaN" else 1.0
        elif field.name == "resource_type":
            one = resource_type
        else:
            continue
        changes[field.name] = [one] if field.is_array else one
    return attrs.evolve(filled(message, structure, version, 1, text), **changes)


def without_echo(value, sent):
    """A response without the texts that the client sent itself."""
    if isinstance(value, list):
        return [without_echo(each, sent) for each in value]
    if attrs.has(type(value)):
        return {name: without_echo(getattr(value, name), sent) for name in attrs.fields_dict(type(value))}
    if isinstance(value, bytes | memoryview):
        value = bytes(value).decode(errors="replace")
    return "..." if value in sent else value


def answer(desk, message, version, sent):
    result = desk.do_steps(desk.decide(message, version))
    if isinstance(result, Close):
        return f"closed: {result.reason}"
    return without_echo(desk.finish(message, version, result), sent)


@each_served_version(parts=4)
def test_a_client_without_rights_causes_no_work_and_gets_the_same_answer(desk, watch, key, version):
    kind, _ = message_classes(key)
    has_settings = key in {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.CREATE_TOPICS}
    for resource_type in RESOURCE_TYPES if key in {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS} else (2,):
        answers = {}
        for setting in SETTINGS if has_settings else ("name",):
            for text in TEMPTATIONS:
                message = tempted(kind, kind, version, text, setting, resource_type)
                answer(desk, sample(kind, version), version, ())  # loads the modules of the API
                with watch.watching() as done:
                    found = answer(desk, message, version, {text, setting})
                    assert done == [], f"{setting}={text}"
                answers[str(found)] = text
        assert len(answers) == 1 or key in ANSWERED_BY_VALUE, answers


@pytest.mark.parametrize(
    ("key", "setting", "text", "resource_type", "event"),
    [
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, SETTINGS[0], "/etc/passwd", 4, "open"),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, "match", "client_id=watched-1.*", 16, "compile"),
        (ApiKey.LIST_TRANSACTIONS, "name", "watched-2.*", 2, "compile"),
    ],
)
def test_the_watch_sees_the_work_for_a_client_with_rights(desk, watch, key, setting, text, resource_type, event):
    kind, _ = message_classes(key)
    version = SERVED[key].versions[-1]
    message = tempted(kind, kind, version, text, setting, resource_type)
    if resource_type == 4:
        message.resources[0].resource_name = "1"
    for structure in getattr(message, "resources", ()):
        structure.configs[0].config_operation = 0
    authorizer, desk.broker.authorizer = desk.broker.authorizer, None
    try:
        with watch.watching() as done:
            answer(desk, message, version, {text, setting})
            assert event in {name for name, _ in done}
    finally:
        desk.broker.authorizer = authorizer

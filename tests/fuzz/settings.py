"""Settings of any kind, as a client sends them: key stores, JAAS lines, mapping rules, patterns, numbers, durations.

A broker in memory has a listener with TLS and SASL, whose files are real. Each step on the event loop is watched, and
what runs in a thread: its processor time, its memory and the files that it opens. A setting that is accepted is used: a
certificate meets its mapping rules, a client its patterns, and a share group its duration.
"""

import base64
import contextlib
import tempfile
from pathlib import Path

import attrs
import trustme
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pipeline_broker.apis.share.share_reading import start_offset
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.node.listeners import BrokerListeners
from pipeline_broker.security.principal_mapping import PrincipalMapping
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.request import Close, Parked, Unfinished, go_on
from tests.apis.desk import Desk
from tests.fuzz.watchdog import FUZZED, ending, repeated, watched

THREAD_SECONDS_MAX = 0.4
"""Of processor time in a thread. A key within the bound takes 0.6 s at most, and the keys here take a tenth of it."""
THREAD_MEMORY_PER_BYTE_MAX = 256
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
CODES = {0, 3, 17, 24, 40, 42, 56, 69}
TEXT_BYTES_MAX = 32_767
KEY = base64.b64decode(
    "MIHtMFgGCSqGSIb3DQEFDTBLMCoGCSqGSIb3DQEFDDAdBAgo3J0CHX3FsQIDAQAAMAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEq"
    "BBCyjRx4oKJFZA6jxGGW5colBIGQlmuuvBO7dQdR+H3uWUUj6ZcyDsML9gyglQC1vrtBUzmX9J3PjpSj2SPFH+ctWTfRjfqNmv0N"
    "goMyJqs/+GCbBmdosKcSD+Wf/jhbyeGUB3GUKB/H1UB49qWu8T/kNgxz3lys/5kbwNYJB+qia3oJK8WGYkx1u/dEzpeORWRRMr83"
    "nVlPnkXgr0IU9DzXMCkK"
)
"""A key for tests, encrypted with PBKDF2."""
ROUNDS = b"\x02\x03\x01\x00\x00"
SECURED = "listener.name.secure."
TEXTS = {
    SECURED + "ssl.keystore.location": (BROKER, "1"),
    SECURED + "ssl.keystore.key": (BROKER, "1"),
    SECURED + "ssl.keystore.certificate.chain": (BROKER, "1"),
    SECURED + "ssl.key.password": (BROKER, "1"),
    SECURED + "ssl.truststore.location": (BROKER, "1"),
    SECURED + "ssl.truststore.certificates": (BROKER, "1"),
    SECURED + "ssl.principal.mapping.rules": (BROKER, "1"),
    SECURED + "ssl.cipher.suites": (BROKER, "1"),
    SECURED + "plain.sasl.jaas.config": (BROKER, "1"),
    SECURED + "scram-sha-256.sasl.jaas.config": (BROKER, "1"),
    "listeners": (BROKER, "1"),
    "log.retention.ms": (BROKER, ""),
    "max.connections.per.ip.overrides": (BROKER, ""),
    "retention.ms": (TOPIC, "t"),
    "min.cleanable.dirty.ratio": (TOPIC, "t"),
    "leader.replication.throttled.replicas": (TOPIC, "t"),
    "share.auto.offset.reset": (GROUP, "g"),
    "match": (METRICS, "m"),
    "interval.ms": (METRICS, "m"),
    "metrics": (METRICS, "m"),
    "root": (LOGGER, "1"),
}
MODULE = "org.apache.kafka.common.security.{}LoginModule required "


def pem(label, data):
    return f"-----BEGIN {label}-----\n{base64.b64encode(data).decode()}\n-----END {label}-----\n"


def with_rounds(rounds):
    return pem("ENCRYPTED PRIVATE KEY", KEY.replace(ROUNDS, b"\x02\x03" + rounds.to_bytes(3)))


class Scene:
    """A broker with a listener whose files are real; a change that is taken is taken back."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-settings-"))
        certificate = trustme.CA().issue_cert("127.0.0.1")
        self.store = self.folder / "store.pem"
        self.store.write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
        line = MODULE.format("plain.Plain") + 'user_a="b";'
        texts = (
            "listeners=PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
            "ssl.keystore.type=PEM",
            "ssl.truststore.type=PEM",
            f"ssl.keystore.location={self.store}",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
            f"{SECURED}plain.sasl.jaas.config={line}",
        )
        self.desk = Desk(*texts)
        topic = CreateTopicsRequest.CreatableTopic("t", 1, 1)
        self.desk.ask(CreateTopicsRequest([topic], 1000), 5)
        config: BrokerConfig = parse_settings([tuple(text.split("=", 1)) for text in texts])[0]
        self.listeners = BrokerListeners(config)
        self.listeners.close()  # no client connects
        self.desk.broker.ports = attrs.evolve(self.desk.broker.ports, check_config=self.listeners.check)

    def may_open(self, path):
        """Imports, and regular files: what a setting names is such a file or is not opened."""
        path = Path(path if isinstance(path, str) else path.decode())
        return path.suffix in {".py", ".pyc", ".so", ".txt"} or path.is_file()

    def ask(self, message, version, size_bytes):
        """The response; each step is watched."""

        def on_loop(step, *arguments):
            with watched("a step on the loop", size_bytes, may_open=lambda _: False):
                return step(*arguments)

        result = on_loop(self.desk.decide, message, version)
        while isinstance(result, Unfinished):
            try:
                value, problem = self.wait(result.first, size_bytes)
            except BaseException:
                result.steps.close()  # the next change waits for this one
                raise
            result = on_loop(go_on, result.steps, value, problem)
        assert not isinstance(result, Close), result
        return self.desk.finish(message, version, result)

    def wait(self, first, size_bytes):
        """Do the work of a thread, or commit; return the result and the error for the next step."""
        if isinstance(first, Parked):
            with watched(
                "the work of a thread",
                size_bytes,
                seconds_max=THREAD_SECONDS_MAX,
                per_byte_max=THREAD_MEMORY_PER_BYTE_MAX,
                may_open=self.may_open,
            ):
                try:
                    return first.work(), None
                except ConfigError as error:  # caught here, so that the watch has its say
                    return None, error
        if first is not None:
            self.desk.commit(list(first.entries))
            if first.on_durable is not None:
                first.on_durable()
        return None, None

    def alter(self, settings, resource, operation=0):
        """The code of the answer to a change that is only tried."""
        altered = IncrementalAlterConfigsRequest
        configs = [altered.AlterableConfig(name, operation, text) for name, text in settings.items()]
        size_bytes = sum(len(name) + len(text or "") for name, text in settings.items())
        request = altered([altered.AlterConfigsResource(*resource, configs)], True)
        (response,) = self.ask(request, 1, size_bytes).responses
        assert response.error_code in CODES, f"{ErrorCode(response.error_code).name}: {response.error_message}"
        return response.error_code

    def describe(self, resource):
        wanted = DescribeConfigsRequest.DescribeConfigsResource(*resource, None)
        (result,) = self.ask(DescribeConfigsRequest([wanted], True, True), 4, len(resource[1])).results
        assert result.error_code in CODES, ErrorCode(result.error_code).name

    def use(self, settings):
        """Use accepted settings as clients do."""
        for name, text in settings.items():
            with watched(f"using {name}", len(text)):
                if name.endswith("mapping.rules"):
                    mapping = PrincipalMapping(text)
                    for subject in ("CN=" + "a" * 24 + "!", "CN=" + "ab" * 500, "CN=x,OU=y", "é" * 300, "a" * 4000):
                        mapping.principal(subject)
                if name == "share.auto.offset.reset":
                    start_offset(self.desk.broker.find_log("t", b"", 0, by_id=False), text, self.desk.now_ms)


SCENES = []


def scene():
    if not SCENES:
        made = Scene()
        for name, resource in TEXTS.items():  # what the first request loads
            with contextlib.suppress(Exception):
                made.alter({name: "x"}, resource)
            with contextlib.suppress(Exception):
                made.describe(resource)
        made.alter({SECURED + "ssl.keystore.location": str(made.store)}, (BROKER, "1"))
        SCENES.append(made)
    return SCENES[0]


@repeated
def run_one(data):
    """Try settings of one resource, then use the accepted ones.

    Args:
        data: settings by their names, "own" for the text of a key store; and the resource, (type, name) or None for
            the usual one.
    """
    given_settings, resource = data
    own = {"own": scene().store.read_text()}
    texts = {name: own.get(text, text).encode(errors="replace") for name, text in given_settings.items()}
    settings = {name: text[:TEXT_BYTES_MAX].decode(errors="ignore") for name, text in texts.items()}
    usual = TEXTS.get(next(iter(settings)), (BROKER, "1")) if resource is None else resource
    with ending():
        if scene().alter(settings, usual) == 0:
            scene().use(settings)
        if resource is not None:
            scene().describe(resource)


numbers = st.sampled_from(
    ["9" * 5000, "1e400", "NaN", "-inf", "\u0661", "1_0", "0x10", "-1", "1" * 20, " 5 "]
) | st.integers().map(str)
pieces = st.sampled_from(
    [
        "-----",
        "BEGIN ",
        "END ",
        "CERTIFICATE",
        "ENCRYPTED PRIVATE KEY",
        "-" * 3000,
        "-----BEGIN A-----" * 500,
        "QUJD" * 999,
        "\n",
        " ",
        "=",
    ]
)
keys = st.sampled_from([1, 2**16, 600_001, 2**22, 2**23 - 1]).map(with_rounds) | st.binary(max_size=99).map(
    lambda data: pem("ENCRYPTED PRIVATE KEY", data)
)
stores = st.lists(pieces, max_size=8).map("".join) | keys
paths = st.sampled_from(
    [
        "/dev/zero",
        "/dev/null",
        "/dev/ptmx",
        "/proc/self/mem",
        "/proc/self/status",
        "/",
        "/etc/passwd",
        "/no",
        "a\0b",
        "",
    ]
)
patterns = st.lists(
    st.sampled_from(
        [
            "(a+)+",
            "(?:a?){900}",
            "(a|aa)*",
            "$",
            "^CN=",
            "(.*)",
            r"\pL",
            "{1000}",
            "(?=a)",
            r"\1",
            "(?<n>a)",
            "[^,]",
            "b",
        ]
    ),
    max_size=6,
).map("".join)
rules = st.lists(
    st.builds(
        lambda pattern, new, letter: f"RULE:{pattern}/{new}/{letter}",
        patterns,
        st.sampled_from(["$1", "x", "$0" * 900, "${n}", "$9", "\\/", "$" + "1" * 400]),
        st.sampled_from(["", "L", "U"]),
    )
    | st.just("DEFAULT"),
    max_size=5,
).map(",".join)
lines = st.lists(
    st.sampled_from(
        [
            MODULE.format("plain.Plain"),
            MODULE.format("scram.Scram"),
            'user_a="b"',
            " ",
            ";",
            "/*",
            "*/",
            '"',
            "\\",
            "\\777",
            "//",
            "=",
            " x=y" * 500,
        ]
    ),
    max_size=8,
).map("".join)
units = st.sampled_from(["9" * 6000, "9" * 400, "1", "0.5", "\u0661", "-1", "9" * 18])
durations = st.builds(
    lambda count, unit: f"by_duration:P{unit.format(count)}", units, st.sampled_from(["{}D", "T{}S", "T{}H", "T1M{}S"])
)
matches = st.builds(
    lambda name, pattern: f"{name}={pattern}", st.sampled_from(["client_id", "client_software_name", "x"]), patterns
)
limits = numbers.map("127.0.0.1:{}".format)
values = st.one_of(numbers, limits, stores, paths, rules, lines, durations, matches, st.text(max_size=50))
fitting = st.one_of(
    st.tuples(st.just(SECURED + "ssl.keystore.location"), paths),
    st.tuples(st.just(SECURED + "ssl.principal.mapping.rules"), rules),
    st.tuples(st.just(SECURED + "plain.sasl.jaas.config"), lines),
    st.tuples(st.just("share.auto.offset.reset"), durations),
    st.tuples(st.just("match"), matches),
    st.tuples(st.sampled_from(sorted(TEXTS)), values),
)
inline = st.builds(
    lambda key, chain: {
        SECURED + "ssl.keystore.location": "",
        SECURED + "ssl.keystore.key": key,
        SECURED + "ssl.keystore.certificate.chain": chain,
        SECURED + "ssl.key.password": "wrong",
    },
    stores,
    stores | st.just("own"),
)
resources = st.tuples(st.sampled_from([TOPIC, BROKER, LOGGER, METRICS, GROUP]), numbers | st.text(max_size=9))
inputs = st.one_of(
    st.tuples(fitting.map(lambda pair: dict([pair])), st.none()),
    st.tuples(inline, st.none()),
    st.tuples(fitting.map(lambda pair: dict([pair])), resources),
)


@examples(FUZZED, max_examples=150)
@given(inputs)
def fuzz(data):
    run_one(data)


INLINE = {SECURED + "ssl.keystore.location": "", SECURED + "ssl.key.password": "wrong"}
CORPUS = {
    "a device": ({SECURED + "ssl.keystore.location": "/dev/zero"}, None),
    "a terminal": ({SECURED + "ssl.keystore.location": "/dev/ptmx"}, None),
    "a trust store that never ends": ({SECURED + "ssl.truststore.location": "/dev/zero"}, None),
    "a key of 2^23 rounds": (
        {
            **INLINE,
            SECURED + "ssl.keystore.key": with_rounds(2**23 - 1),
            SECURED + "ssl.keystore.certificate.chain": "own",
        },
        None,
    ),
    "dashes": ({SECURED + "ssl.truststore.certificates": "-" * 32_000}, None),
    "many beginnings": ({SECURED + "ssl.keystore.key": "-----BEGIN A-----" * 1_900}, None),
    "a rule that backtracks": ({SECURED + "ssl.principal.mapping.rules": "RULE:^CN=(a+)+$/x/,DEFAULT"}, None),
    "a rule that multiplies": ({SECURED + "ssl.principal.mapping.rules": f"RULE:.*/{'$0' * 9_000}/"}, None),
    "a node of 5,000 digits": ({"log.retention.ms": "1"}, (BROKER, "9" * 5_000)),
    "a logger of 5,000 digits": ({"root": "INFO"}, (LOGGER, "9" * 5_000)),
    "a duration beyond numbers": ({"share.auto.offset.reset": "by_duration:P" + "9" * 6_000 + "D"}, None),
    "seconds beyond numbers": ({"share.auto.offset.reset": "by_duration:PT" + "9" * 400 + "S"}, None),
    "an address with a limit of 5,000 digits": ({"max.connections.per.ip.overrides": "a:" + "9" * 5_000}, None),
    "an expression that takes long to read": ({"match": "client_id=" + r"\pL" * 1_300}, None),
    "a line of many users": (
        {
            SECURED + "plain.sasl.jaas.config": MODULE.format("plain.Plain")
            + " ".join(f'user_{n}="x"' for n in range(1_500))
            + ";"
        },
        None,
    ),
}
"""Inputs that each stopped a broker, or had it answer with an error of its own, before there were bounds."""

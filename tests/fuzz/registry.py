"""The schema registry: requests of strangers, and records of strangers in its topic.

What the registry does on the event loop is watched; the work of schemas is done by a worker process as a broker has it,
with less time. Every answer is JSON below 500, and what was recorded is served again by a registry that reads it.
Longer than most files: the input of all operations, and one registry that they all go to.
"""

import atexit
import contextlib
import json
import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.schema_registry.api import TABLE, answer_of, error_answer, find_operation
from pipeline_broker.schema_registry.decoding import coded, decode_all
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.records import VersionChange, read_changes
from pipeline_broker.schema_registry.registration import SMALL_BYTES_MAX, remembering
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import Reference, Schema, SchemaType, Version
from pipeline_broker.web.messages import BadRequestError, StreamedAnswer
from pipeline_broker.worker.child import READY
from pipeline_broker.worker.work import TookTooLongError, Work, WorkFailedError
from tests.fuzz.watchdog import FUZZED, repeated, watched
from tests.schema_registry.registry_desk import request_of

WORK_SECONDS_MAX = 3.0
WORKER_MEMORY_BYTES_MAX = 192 << 20
SUBJECTS = ["a", "b-value", "\u2603", "x" * 1024, "x" * 1025, "\x00"]
ERROR_BYTES_MAX = 1 << 20
UNAVAILABLE = {503, 500}
"""Statuses that a registry may have without being at fault: work that took too long is 50002."""


class WorkerHere:
    """The worker process of a broker, for a caller that waits."""

    def __init__(self):
        self._process = None

    def run(self, work):
        frame = pickle.dumps(work)
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pipeline_broker.worker.child", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                bufsize=0,
            )
            self._process.stdout.read(len(READY))
        end = time.monotonic() + WORK_SECONDS_MAX
        self._process.stdin.write(len(frame).to_bytes(4) + frame)
        head = self._read(4, end)
        kind, value = pickle.loads(self._read(int.from_bytes(head), end))
        if kind == "returned":
            return value
        if kind == "raised":
            raise value
        self.close()
        raise WorkFailedError(value)

    def _read(self, size, end):
        data = b""
        while len(data) < size:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.close()
                raise TookTooLongError
            part = self._process.stdout.read(size - len(data))
            if not part:
                self.close()
                raise WorkFailedError("it ended the process of the worker")
            data += part
        return data

    @property
    def memory_bytes(self):
        if self._process is None:
            return 0
        lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None


_worker = WorkerHere()
atexit.register(_worker.close)


# The input

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.sampled_from([float("nan"), float("inf"), 1.5, -0.0, 5e-324])
    | st.sampled_from(
        ["", "error", "int", "A", "#/definitions/a", "\ud800", "x" * 300, "(a+)+$", "google.protobuf.Any"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "name", "fields", "$ref", "items"]) | st.text(max_size=3), inner, max_size=4
        )
    ),
    max_leaves=12,
)
AVRO = [
    '"int"',
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 1}]},
    {"type": "error", "name": "E", "fields": []},
    {"type": "enum", "name": "E", "symbols": ["A"]},
    ["null", {"type": "map", "values": "R"}],
]
JSON = [
    {"type": "object", "properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"type": "string"}}},
    {"patternProperties": {"(a+)+$": {}}, "properties": {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!": {}}},
    {"$id": "x", "allOf": [{"$ref": "x"}], "$defs": {"a": True}},
    {"default": [[]] * 30_000},
]
PROTOBUF = [
    'syntax = "proto3"; message A { int32 a = 1; }',
    'syntax = "proto3"; import "a.proto"; message B { A a = 1; }',
    'syntax = "proto2"; message A { optional int32 a = 1 [default = 1]; extensions 100 to max; }',
    'syntax = "proto3";\nmessage ' + "M" * 20_000 + " {\n" + "int32 a=1;\n" * 300 + "}\n",
    "message A { " * 150,
    'edition = "2023"; message A { repeated A a = 1; }',
]


@st.composite
def mutated(draw, bases):
    """A base, with one of its nodes replaced."""
    content = json.loads(json.dumps(draw(st.sampled_from(bases))))
    for _ in range(draw(st.integers(0, 2))):
        nodes = [content] if isinstance(content, dict | list) else []
        for node in nodes:
            nodes += [
                inner for inner in (node.values() if isinstance(node, dict) else node) if isinstance(inner, dict | list)
            ][:20]
        if not nodes:
            return draw(VALUES)
        node = nodes[draw(st.integers(0, len(nodes) - 1))]
        if isinstance(node, dict):
            key = draw(st.sampled_from([*node, "name", "default", "aliases", "$id"]))
            node[key] = draw(VALUES)
        elif node:
            node[draw(st.integers(0, len(node) - 1))] = draw(VALUES)
    return content


@st.composite
def schemas(draw):
    """A body with a schema."""
    kind = draw(st.sampled_from(["AVRO", "AVRO", "JSON", "JSON", "PROTOBUF", "PROTOBUF", "NONE"]))
    if kind == "PROTOBUF":
        text = draw(st.sampled_from(PROTOBUF))
        cut = draw(st.none() | st.none() | st.integers(0, len(text)))
        text = text if cut is None else text[:cut] + draw(st.text(max_size=5)) + text[cut:]
    else:
        text = json.dumps(draw(mutated(AVRO if kind == "AVRO" else JSON)))
    body = {"schema": text, "schemaType": kind}
    if draw(st.booleans()):
        names = st.sampled_from(["a.proto", "a.proto/b.proto", "../a.proto", "R", "x", "google/protobuf/any.proto"])
        reference = st.fixed_dictionaries(
            {"name": names, "subject": st.sampled_from(SUBJECTS), "version": st.integers(-2, 3)}
        )
        body["references"] = draw(st.lists(reference, max_size=3))
    for name in draw(st.lists(st.sampled_from(["metadata", "ruleSet", "id", "version"]), max_size=2)):
        body[name] = draw(VALUES)
    return body


SETTINGS = st.dictionaries(
    st.sampled_from(["compatibility", "compatibilityLevel", "mode", "defaultMetadata", "normalize", "alias"]),
    VALUES | st.sampled_from(["NONE", "FULL_TRANSITIVE", "IMPORT", "READONLY", "READWRITE"]),
    max_size=3,
)
RAW = st.sampled_from(
    [
        b"",
        b"{",
        b"NaN",
        b'{"defaultMetadata":1e999}',
        b'{"schema":"\\"int\\"","metadata":{"a":1e999}}',
        b"[" * 20_000,
        b"\xff",
        b"5e-324," * 3_000,
        b'"' + b"\\u0000" * 9_000,
    ]
)
PARTS = st.sampled_from(
    [*(quote(text, safe="") for text in SUBJECTS), "1", "2", "latest", "-1", "0", "9" * 5_000, "\u0661"]
)


VERSIONS, CONFIG = ("subjects", "*", "versions"), ("config", "*")
LATEST = ("compatibility", "subjects", "*", "versions", "*")


@st.composite
def requests(draw):
    """Method, target and body of a request."""
    pattern = draw(st.sampled_from([*sorted(TABLE), *[VERSIONS] * 12, *[CONFIG, ("config",), LATEST] * 3]))
    subject = draw(st.sampled_from(["a", "a", "b-value"]) | PARTS)
    path = "/".join(
        (subject if place == 1 else draw(PARTS)) if part == "*" else part for place, part in enumerate(pattern)
    )
    query = "&".join(
        f"{name}={value}"
        for name, value in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(
                        ["deleted", "permanent", "normalize", "verbose", "format", "offset", "limit", "force"]
                    ),
                    st.sampled_from(["true", "serialized", "1", "-1", "9" * 30]),
                ),
                max_size=3,
            )
        )
    )
    method = draw(st.sampled_from([*TABLE[pattern], *TABLE[pattern], "POST", "PUT", "PATCH"]))
    usual = SETTINGS if pattern[:1] in (("config",), ("mode",)) else schemas()
    is_raw = draw(st.integers(0, 5)) == 0
    body = draw(RAW if is_raw else usual.map(json.dumps).map(str.encode))
    return method, quote(f"/{path}", safe="/%") + f"?{query}", body


RECORDS = st.tuples(
    st.sampled_from(["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "NOOP", 1]), VALUES, schemas() | SETTINGS | VALUES
)


DENSE = b"[" + b"5e-324," * 400_000 + b"1]"
KINDS = ["request"] * 24 + ["record"] * 8 + ["dense", "chain"]
CHAINS = st.tuples(st.just("chain"), st.sampled_from([3, 250]), st.sampled_from([1, 20]))


@st.composite
def steps_of(draw):
    """One thing that strangers do; most are requests."""
    kind = draw(st.sampled_from(KINDS))
    if kind == "dense":
        return kind, None, None
    return draw({"request": requests(), "record": RECORDS, "chain": CHAINS}[kind])


# What must hold


def _strictly(text):
    def refuse(word):
        raise AssertionError(f"an answer has {word}")

    return json.loads(text, parse_constant=refuse)


class Registry:
    """A registry whose steps on the event loop are watched."""

    def __init__(self):
        self.state = RegistryState()
        self.written = []

    def ask(self, method, target, body):
        try:
            with watched("the head", len(target)):
                request = request_of(method, target, body)
                found = find_operation(request)(self.state, request)
            decision = self._decided(found, len(body)) if isinstance(found, Generator) else found
            with watched("the answer", self._bytes + len(body)):
                answer = answer_of(decision)
            text = b"".join(self._pieces(answer)) if isinstance(answer, StreamedAnswer) else answer.body
        except (RegistryError, BadRequestError) as error:
            answer = error_answer(error)
            assert answer.status < 500 or answer.status in UNAVAILABLE, answer.body
            text, decision = answer.body, None
            assert len(text) < ERROR_BYTES_MAX, "an error text is multiplied"
        except (TookTooLongError, WorkFailedError):
            return
        assert b"/tmp" not in text, text
        if decision is None or not decision.is_text:
            _strictly(text)
        for change in decision.changes if decision else ():
            with watched("a record", self._bytes + len(body)):
                key, value = change.record()
            self.append(key, value)

    def _pieces(self, answer):
        while True:
            with watched("a piece of the answer", self._bytes):
                piece = next(answer.pieces, None)
            if piece is None:
                return
            yield piece

    @property
    def _bytes(self):
        return self.state.text_bytes

    def _decided(self, steps, body_bytes):
        steps, result = remembering(steps, {}), None
        while True:
            try:
                with watched("a step", self._bytes + body_bytes):
                    work = steps.send(result)
            except StopIteration as end:
                return end.value
            result = None if work is None else _worked(work)

    def append_chain(self, length, width):
        """Schemas that refer to those after them, as records of a stranger."""
        for number in range(length):
            references = [Reference(f"r{it}", f"s{it}", 1) for it in range(number + 1, min(length, number + 1 + width))]
            schema = Schema(SchemaType.AVRO, f'"{number}"', tuple(references))
            self.append(*VersionChange(f"s{number}", 1, Version(f"s{number}", 1, 1_000 + number, schema)).record())
        body = {"schema": '"int"', "references": [{"name": "r0", "subject": "s0", "version": 1}]}
        self.ask("POST", "/subjects/a/versions", json.dumps(body).encode())
        self.ask("GET", "/subjects/s1/versions/1/referencedby", b"")

    def append(self, key, value):
        """Append a record to the topic, as the registry or as a stranger, and read it."""
        batch = build_batch([NewRecord(value, key, 0)])
        self.written.append((key, value))
        if key == b"dense":
            batch = build_batch([NewRecord(value, b'{"keytype":"NOOP"}', 0)], compression=1)
        work = Work(read_changes, (batch, 0))
        if len(batch) <= SMALL_BYTES_MAX and key != b"dense":
            with watched("a small batch", len(batch)):
                changes, _ = work()
        else:
            try:
                changes, _ = _worked(work)
            except (TookTooLongError, WorkFailedError):
                return  # the batch is left out
        for _, change in changes:
            with watched("a change", len(batch)):
                if not isinstance(change, str):
                    self.state.apply(change)


def _worked(work):
    result = _worker.run(work)
    assert _worker.memory_bytes < WORKER_MEMORY_BYTES_MAX + (64 << 20), "of the worker process"
    return result


@examples(FUZZED, max_examples=10)
@given(st.lists(steps_of(), min_size=1, max_size=8))
def fuzz(steps):
    run_one(steps)


@repeated
def run_one(steps):
    """Try some steps on a registry, and what they recorded on another one."""
    registry = Registry()
    for kind, first, second in steps:
        if kind == "dense":
            registry.append(b"dense", DENSE)
            continue
        if kind == "chain":
            registry.append_chain(first, second)
            continue
        if isinstance(second, bytes):
            registry.ask(kind, first, second)
            continue
        key = json.dumps(
            {"keytype": kind, "subject": first if isinstance(first, str) else "a", "version": 1, "magic": 1}
        )
        value = json.dumps({"subject": "a", "version": 1, "id": 7, **second} if isinstance(second, dict) else second)
        registry.append(key.encode(errors="replace"), value.encode(errors="replace"))
    again = Registry()
    for key, value in registry.written:
        again.append(key, value)
    for target in ("/schemas?deleted=true", "/subjects?deleted=true", "/config", "/mode"):
        for each in (registry, again):
            each.ask("GET", target, b"")
    contents = [
        b"\0" + schema_id.to_bytes(4) + content
        for schema_id in (1, 2, 7)
        for content in (b"", b"\0", b"{}", b"\xff" * 20)
    ]
    with watched("the contents of records", registry.state.text_bytes + sum(map(len, contents))):
        found = coded(registry.state, contents)
    with contextlib.suppress(TookTooLongError):
        assert len(_worked(Work(decode_all, (tuple(found),)))) == len(contents)


CORPUS = {
    "version of 5,000 digits": [
        ("POST", "/compatibility/subjects/a/versions/" + "9" * 5_000, b'{"schema":"\\"int\\""}')
    ],
    "arabic digits": [("GET", "/schemas/ids/\u0661".encode().decode("latin-1"), b"")],
    "avro error": [
        ("POST", "/subjects/a/versions", b'{"schema":"{\\"type\\":\\"error\\",\\"name\\":\\"E\\",\\"fields\\":[]}"}')
    ],
    "infinity in metadata": [("POST", "/subjects/a/versions", b'{"schema":"\\"int\\"","metadata":{"a":Infinity}}')],
    "nan in settings": [("PUT", "/config", b'{"compatibility":"BACKWARD","defaultMetadata":NaN}')],
    "half a character": [("PUT", "/config", b'{"defaultMetadata":"\\ud800"}')],
    "names in each other's way": [
        ("POST", "/subjects/x/versions", json.dumps({"schemaType": "PROTOBUF", "schema": PROTOBUF[0]}).encode()),
        (
            "POST",
            "/subjects/a/versions",
            json.dumps(
                {
                    "schemaType": "PROTOBUF",
                    "schema": PROTOBUF[0],
                    "references": [
                        {"name": name, "subject": "x", "version": 1} for name in ("a.proto", "a.proto/b.proto")
                    ],
                }
            ).encode(),
        ),
    ],
    "long errors": [
        ("POST", "/subjects/a/versions", json.dumps({"schemaType": "PROTOBUF", "schema": PROTOBUF[3]}).encode())
    ],
    "dense record": [("dense", None, None)],
    "chains of references": [("chain", 400, 1), ("chain", 120, 100)],
}
"""Faults that were known before, and findings of earlier runs."""

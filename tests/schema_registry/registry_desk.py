"""A registry without a broker: requests are values, work runs at once, and changes are applied from their records."""

import json
import pickle
from collections.abc import Generator
from urllib.parse import quote

import trio

from pipeline_broker.schema_registry.api import answer_of, error_answer, find_operation
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.records import read_change
from pipeline_broker.schema_registry.registration import remembering
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.web.messages import HttpRequest, StreamedAnswer

USER = (
    '{"type":"record","name":"test","fields":'
    '[{"type":"string","name":"field1"},{"type":"com.acme.Referenced","name":"field2"}]}'
)
REFERENCED = '{"type":"record","name":"Referenced","namespace":"com.acme","fields":[{"name":"a","type":"int"}]}'
FIRST = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WITH_DEFAULT = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"string","default":""}]}'
)
WITHOUT_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"}]}'


def code(answer):
    return answer["error_code"] if isinstance(answer, dict) else answer[1]["error_code"]


def request_of(method, target, body=None):
    """Build a request as a client sends it; a body other than bytes becomes JSON."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = HttpRequest.parse(method.encode(), target.encode(), [])
    return HttpRequest(
        method=request.method,
        path=request.path,
        query=request.query,
        headers={},
        body=content,
        segments=request.segments,
    )


class WorkerHere:
    """A worker that works at once, in this process, after calling `meanwhile`."""

    def __init__(self):
        self.meanwhile = lambda: None

    async def run(self, work, client):
        self.meanwhile()
        await trio.lowlevel.checkpoint()
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))()))


class RegistryDesk:
    """A registry whose `records` stand for its topic. `after_work` is called after each piece of work."""

    def __init__(self):
        self.state = RegistryState()
        self.records = []
        self.after_work = lambda: None

    def ask(self, method, target, body=None):
        """Return the status of the answer, and its body as JSON."""
        status, text = self.ask_text(method, target, body)
        return status, json.loads(text)

    def ask_text(self, method, target, body=None):
        answer = self._answer(request_of(method, target, body))
        body = b"".join(answer.pieces) if isinstance(answer, StreamedAnswer) else answer.body
        return int(getattr(answer, "status", 200)), body.decode()

    def _answer(self, request):
        known = {}
        try:
            while True:
                revision = self.state.revision
                decision = self._decide(request, known)
                if self.state.revision == revision:
                    break
        except RegistryError as error:
            return error_answer(error)
        for change in decision.changes:
            self.records.append(change.record())
            assert self.state.apply(read_change(*self.records[-1]))
        return answer_of(decision)

    def _decide(self, request, known):
        found = find_operation(request)(self.state, request)
        if not isinstance(found, Generator):
            return found
        steps, result = remembering(found, known), None
        while True:
            try:
                work = steps.send(result)
            except StopIteration as end:
                return end.value
            if work is None:
                result = None
                continue
            result = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))()))  # like the worker process
            self.after_work()

    def register(self, subject, text, kind="AVRO", **more):
        """Register a schema; return its id or the error."""
        body = {"schema": text, "schemaType": kind, **more}
        status, answer = self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)
        return answer["id"] if status == 200 else answer

"""Whatever goes wrong with a request, its own response can say so in the version of the request."""

from importlib import import_module

import pytest

from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.error import ErrorCode
from stages.request import Request
from tests.apis.desk import Desk
from tests.bad_input.raw_client import SERVED_IDS, SERVED_VERSIONS
from tests.wire.generated import sample

CODES = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.fixture(scope="module")
def desk():
    return Desk()


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS, ids=SERVED_IDS)
def test_an_error_can_be_written_in_every_version(desk, key, version):
    module = import_module(f"pipeline_broker.apis.{SERVED[key].module}")
    session = Session(host="127.0.0.1", listener="PLAINTEXT")
    request = Request(desk.connection, 1, b"", 0)
    call = Call(desk.broker, request, session, key, version, 1, "client", desk.now_ms)
    for message in (module.REQUEST(), sample(module.REQUEST, version, elements=2)):
        for code in CODES:
            response = module.error_response(message, call, code)
            if response is None:
                continue  # nothing is answered: the connection is closed
            data = b"".join(map(bytes, encode(response, version)))
            _, end = decode(type(response), version, data)
            assert end == len(data)

"""Every error of a request can be expressed in its own response, in the version of the request."""

import pytest

from pipeline_broker.apis.dispatch import refusal_by_api
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.registry import message_classes
from tests.apis.desk import Desk
from tests.bad_input.raw_client import each_served_version
from tests.wire.generated import sample

CODES = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.fixture(scope="module")
def desk():
    return Desk()


@each_served_version()
def test_an_error_can_be_written_in_every_version(desk, key, version):
    message_class, _ = message_classes(key)
    call = desk.call(key, version)
    for message in (message_class(), sample(message_class, version, elements=2)):
        for code in CODES:
            response = refusal_by_api(code, call, message, is_handled=True)
            if response is None:
                continue  # nothing is answered: the connection is closed
            data = b"".join(map(bytes, encode(response, version)))
            _, end = decode(type(response), version, data)
            assert end == len(data)

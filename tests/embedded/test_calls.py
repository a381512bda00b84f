"""The rights of the embedding program."""

from types import SimpleNamespace

from pipeline_broker.apis import authorization
from pipeline_broker.apis.call import Session
from pipeline_broker.embedded.calls import program
from pipeline_broker.security.acl import AclOperation


def test_requests_of_the_embedding_program_need_no_rights():
    class Refusing:
        def is_allowed(self, *_, **__):
            return False

    broker = SimpleNamespace(authorizer=Refusing())
    asked_by = program(), Session("host", "TEST")
    allowed = [
        authorization.authorize_group(SimpleNamespace(session=session, broker=broker), AclOperation.READ, "g")
        for session in asked_by
    ]
    assert allowed == [True, False]

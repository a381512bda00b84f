"""A request over HTTP acts as its user, else as the principal of the port, else with all rights."""

import pytest

from pipeline_broker.node.http_callers import HttpCallers
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.basic_users import HttpUser
from pipeline_broker.web.messages import HttpRequest
from tests.apis.desk import Desk

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ada;Service:page",
)


@pytest.mark.parametrize(
    ("user", "principal", "name", "is_allowed"),
    [
        (None, None, "", True),
        (None, "Service:page", "Service:page", True),
        (None, "Service:other:x", "Service:other:x", False),
        (HttpUser("ada"), None, "User:ada", True),
        (HttpUser("eve"), None, "User:eve", False),
        (HttpUser("eve"), "Service:page", "User:eve", False),
    ],
)
def test_the_principal_of_a_request(user, principal, name, is_allowed):
    broker = Desk(*SETTINGS).broker
    request = HttpRequest(method="GET", path="/", query={}, headers={}, peer="10.0.0.9", user=user)
    caller = HttpCallers(None, broker, "PORT", principal).caller_of(request)
    assert (caller.name, caller.may(AclOperation.READ, ResourceType.TOPIC, "t")) == (name, is_allowed)
    hosts = {host for refusal in broker.denials.newest() for host in refusal.source[1:]}
    assert hosts == (set() if is_allowed else {"10.0.0.9"})

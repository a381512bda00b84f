"""Changes through the dashboard of `--brokers N` reach all brokers, or are refused with the way to make them."""

import json
import re
import time
import urllib.error
import urllib.request

import pytest

from pipeline_broker.security.acl import AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.wire.messages.configs.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient
from tests.conftest import start_broker
from tests.dashboard.test_rights import ACL, CREDENTIAL
from tests.forks import PROGRAM

pytestmark = pytest.mark.faults

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS;User:ada",
)
RULES = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
PARTITIONS = 4
SECONDS_MAX = 30


class Page:
    """The dashboard of broker 1, asked as ada, and the ports of the two brokers."""

    def __init__(self, supervisor):
        self.address = re.search(r"dashboard on (\S+)/", supervisor.stderr)[1]
        self.port = supervisor.port

    def change(self, name, /, **body):
        headers = {
            "Origin": self.address,
            "Content-Type": "application/json",
            "Authorization": "Basic YWRhOnNlY3JldA==",
        }
        request = urllib.request.Request(f"{self.address}/api/{name}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)["error"]

    def ask(self, message, response, version):
        """Ask broker 2."""
        metadata = MetadataRequest([], allow_auto_topic_creation=False)
        with WireClient("127.0.0.1", self.port) as client:
            (port,) = [each.port for each in client.ask(metadata, MetadataResponse, 12).brokers if each.node_id == 2]
        with WireClient("127.0.0.1", port) as client:
            return client.ask(message, response, version)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    users = folder / "users"
    users.write_text("ada:secret\n")
    users.chmod(0o600)
    arguments = ["--brokers", "2", "--dashboard", "0", "--schema-registry", "0", "--http-users", str(users)]
    supervisor = start_broker(folder, arguments=arguments, settings=SETTINGS, program=PROGRAM)
    try:
        yield Page(supervisor)
    finally:
        supervisor.stop()
        supervisor.process.stdout.close()


def test_access_users_and_quotas_are_changed_on_all_brokers_before_the_answer(page):
    assert page.change("changes/create-acl", **ACL) == {}
    (resource,) = page.ask(RULES, DescribeAclsResponse, 3).resources
    (rule,) = resource.acls
    assert (resource.resource_type, resource.pattern_type) == (ResourceType.TOPIC, PatternType.LITERAL)
    assert (rule.operation, rule.permission_type) == (AclOperation.READ, PermissionType.DENY)
    assert page.change("changes/delete-acl", **ACL) == {}
    assert page.ask(RULES, DescribeAclsResponse, 3).resources == []
    assert page.change("changes/set-password", **CREDENTIAL, password="x") == {}
    users = page.ask(DescribeUserScramCredentialsRequest(None), DescribeUserScramCredentialsResponse, 0).results
    assert [each.user for each in users] == ["bob"]
    assert page.change("changes/set-quota", of={"user": "bob"}, quota="producer_byte_rate", value=5) == {}
    (entry,) = page.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse, 1).entries
    assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 5.0)]


def test_topics_settings_and_schemas_are_changed(page):
    assert page.change("changes/create-topic", topic="made") == {}
    assert page.change("changes/configure", topic="made", setting="retention.ms", value="5000") == {}
    topic = MetadataRequest.MetadataRequestTopic(name="made")
    (shown,) = page.ask(MetadataRequest([topic], allow_auto_topic_creation=False), MetadataResponse, 12).topics
    assert shown.error_code == 0
    assert page.change("changes/delete-topic", topic="made") == {}
    assert page.change("changes/register-schema", subject="s", type="AVRO", schema='"int"') == {}
    assert page.change("changes/set-compatibility", subject="s", level="FULL") == {}
    assert page.change("changes/delete-schema", subject="s") == {}


def test_records_of_other_brokers_are_changed_by_clients_only(page):
    assert page.change("changes/create-topic", topic="spread", partitions=PARTITIONS) == {}
    answers = [page.change("changes/produce", topic="spread", value="v", partition=n) for n in range(PARTITIONS)]
    elsewhere = "NOT_LEADER_OR_FOLLOWER: another broker of the cluster leads the partition. Use a client"
    assert 0 < answers.count(elsewhere) < PARTITIONS
    assert {type(each) for each in answers if each != elsewhere} == {dict}
    reason = "other brokers of the cluster lead partitions of the topic. Use a client"
    assert page.change("changes/empty-topic", topic="spread") == reason


def test_groups_of_other_brokers_are_changed_by_clients_only(page):
    """The first request creates the topic of groups."""
    page.ask(FindCoordinatorRequest(coordinator_keys=["group"]), FindCoordinatorResponse, 6)
    deadline = time.monotonic() + SECONDS_MAX
    elsewhere = "NOT_COORDINATOR: another broker of the cluster coordinates the group. Use a client"
    while (said := {page.change("changes/delete-group", group=f"g{n}") for n in range(20)}) == {elsewhere}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert said == {"GROUP_ID_NOT_FOUND", elsewhere}

"""Fixtures of the plugin other than the session's broker: named topics, and a broker per test."""

import re

import pytest

from tests.plugin_runs import Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_topics_are_named_after_their_test_and_unique(tree):
    outcome = tree(
        {
            "test_it.py": """
            import pytest

            @pytest.mark.kafka(partitions=2)
            @pytest.mark.parametrize("name", ["first", "x" * 300])
            def test_it(kafka_broker, kafka_topics, name):
                orders, bills = kafka_topics("orders", "bills", configs={"cleanup.policy": "compact"})
                (more,) = kafka_topics("orders", partitions=1)
                assert [kafka_broker.topics()[topic] for topic in (orders, bills, more)] == [2, 2, 1]
                assert orders.startswith("test_it") and orders.endswith("-orders") and bills.endswith("-bills")
                assert len({orders, bills, more}) == 3
                assert kafka_topics() == []
            """
        }
    )
    assert outcome.counts() == {"passed": 2}, outcome.text


def test_a_list_of_topics_is_refused_with_the_call_to_write(tree):
    outcome = tree({"test_it.py": "def test_it(kafka_topics): kafka_topics(['a', 'b'])\n"}, "-q")
    assert outcome.counts() == {"failed": 1}
    assert "EmbeddedBrokerError: write kafka_topics('a', 'b'): it needs names, not ['a', 'b']" in outcome.text


def test_a_fresh_broker_has_the_modes_of_the_marker_and_may_be_closed(tree):
    outcome = tree(
        {
            "test_it.py": """
            import pytest

            seen = set()

            @pytest.mark.kafka(mode=["classic", "pipelined"], settings={"num.partitions": 3})
            @pytest.mark.parametrize("number", [1, 2])
            def test_fresh(kafka_broker, kafka_broker_fresh, request, number):
                assert kafka_broker_fresh.mode in request.node.name
                assert kafka_broker_fresh.mode == kafka_broker.mode
                assert kafka_broker_fresh.topics() == {}
                kafka_broker_fresh.create_topic("t")
                kafka_broker_fresh.advance(86_400)
                assert kafka_broker_fresh.topics() == {"t": 3}
                seen.add(kafka_broker_fresh.bootstrap_servers)

            def test_that_closes_it(kafka_broker_fresh):
                assert kafka_broker_fresh.bootstrap_servers not in seen
                kafka_broker_fresh.close()

            def test_whose_disk_fails(kafka_broker_fresh):
                kafka_broker_fresh.faults.disk_when("write").error()
                with pytest.raises(Exception, match="the broker failed"):
                    kafka_broker_fresh.produce("t", "value")

            def test_next(kafka_broker_fresh):
                kafka_broker_fresh.produce("t", "value")
            """
        },
        "-q",
        "--kafka-mode=classic",
    )
    assert outcome.counts() == {"passed": 7}, outcome.text


def test_a_fresh_broker_has_a_report_section_and_its_rules_are_checked(tree):
    outcome = tree(
        {
            "test_it.py": """
            def test_fails(kafka_broker, kafka_broker_fresh):
                kafka_broker.produce("shared", "in the session")
                kafka_broker_fresh.produce("own", "in the test")
                assert False

            def test_forgets(kafka_broker_fresh):
                kafka_broker_fresh.faults.when("Produce")

            def test_never(kafka_broker_fresh):
                kafka_broker_fresh.faults.when("Produce", topic="typo").drop()
            """
        },
        "-q",
        "--kafka-dump=dumps",
        "-W",
        "default::pipeline_broker.pytest_plugin.UnusedFaultWarning",
    )
    assert outcome.counts() == {"failed": 2, "passed": 1, "warning": 1}, outcome.text
    shared, fresh = re.split(r"^-+ kafka broker(?:, fresh)? -+$", outcome.text, flags=re.MULTILINE)[1:3]
    assert ("in the session" in shared, "in the test" in shared.split("____")[0]) == (True, False)
    assert ("in the session" in fresh, "in the test" in fresh) == (False, True)
    assert "this fault rule has no effect: Produce. Give it one" in outcome.text
    assert "this fault rule never struck: Produce topic=typo: drop" in outcome.text
    pages = sorted(page.name for page in (tree.folder / "dumps").iterdir())
    names = ["test_it.py-test_fails-fresh.html", "test_it.py-test_fails.html", "test_it.py-test_forgets-fresh.html"]
    assert pages == names


@pytest.mark.parametrize("broker", ["kafka_cluster", "kafka_cluster_fresh", "kafka_broker_fresh"])
def test_a_fixture_of_another_broker_than_the_requested_one_fails_in_one_line(tree, broker):
    instead = {
        "kafka_topic": 'create_topic("orders")',
        "kafka_topics": 'create_topic("orders")',
        "kafka_topic_factory": 'create_topic("orders")',
        "kafka_producer": "bootstrap_servers for a producer",
        "kafka_consumer": "bootstrap_servers for a consumer",
        "kafka_faults": "faults",
        "kafka_schema_registry": "schema_registry_url",
    }
    tests = "".join(f"def test_{name}({broker}, {name}): pass\n" for name in instead)
    outcome = tree(
        {
            "conftest.py": f"""
            import pytest

            @pytest.fixture
            def cluster({broker}):
                return {broker}

            @pytest.fixture
            def rules(kafka_faults):
                return kafka_faults
            """,
            "test_it.py": tests,
            "test_wrapped.py": "def test_wrapped(cluster, rules): pass\n",
            "test_aware.py": f"""
            def test_both({broker}, kafka_broker, kafka_topic): assert kafka_topic in kafka_broker.topics()

            def test_a_name({broker}, kafka_group): assert {broker}.offsets(kafka_group) == {{}}
            """,
        },
        "-q",
    )
    assert outcome.counts() == {"error": len(instead) + 1, "passed": 2}, outcome.text
    for name, advice in instead.items():
        line = f"{name} belongs to kafka_broker, which is another broker than {broker}: write {broker}.{advice} instead"
        assert outcome.text.count(f"\n{line}, or also request kafka_broker if you mean that one\n"), outcome.text
    assert "Traceback" not in outcome.text


def test_a_test_that_fails_without_its_broker_has_a_section_and_a_page(tree):
    outcome = tree(
        {
            "test_it.py": """
            def test_stops(kafka_cluster):
                kafka_cluster.create_topic("stopped", partitions=3)
                for number in range(3):
                    kafka_cluster.produce("stopped", f"value-{number}", partition=number)
                kafka_cluster.stop(kafka_cluster.leader_of("stopped", 1))
                assert False

            def test_closes(kafka_broker):
                kafka_broker.produce("closed", "value-3")
                kafka_broker.close()
                assert False

            def test_is_undisturbed(kafka_broker, kafka_cluster):
                assert kafka_broker.topics() == {"closed": 1}
                assert len(kafka_cluster.records("stopped")) == 3
            """
        },
        "-q",
        "--kafka-dump=dumps",
    )
    assert outcome.counts() == {"failed": 2, "passed": 1}, outcome.text
    assert [f"value-{number}" in outcome.text for number in range(4)] == [True, False, True, True], outcome.text
    assert re.search(r"LEADER_NOT_AVAILABLE: broker \d is stopped", outcome.text)
    pages = {page.name for page in (tree.folder / "dumps").iterdir()}
    assert pages == {"test_it.py-test_stops-cluster.html", "test_it.py-test_closes.html"}


def test_a_cluster_of_the_session_is_an_island_for_each_test_and_a_fresh_one_is_of_the_test(tree):
    outcome = tree(
        {
            "test_it.py": """
            import pytest

            @pytest.mark.kafka(mode=["classic", "pipelined"])
            def test_disturbs(kafka_cluster, request):
                assert kafka_cluster.mode in request.node.name
                kafka_cluster.create_topic("t", partitions=3)
                kafka_cluster.brokers[1].faults.when("Fetch").drop()
                kafka_cluster.stop(kafka_cluster.brokers[1])

            @pytest.mark.kafka(mode=["classic", "pipelined"])
            def test_is_undisturbed(kafka_cluster):
                assert [broker.is_running for broker in kafka_cluster.brokers] == [True] * 3
                assert kafka_cluster.faults.rules == []
                kafka_cluster.produce("t", "in the cluster")
                assert kafka_cluster.advance("8d") is None
                assert kafka_cluster.records("t") == []

            def test_fails(kafka_cluster_fresh, kafka_broker):
                assert kafka_cluster_fresh.topics() == kafka_broker.topics() == {}
                kafka_cluster_fresh.produce("own", "in the test")
                assert False

            def test_begins_it(request):
                cluster = request.getfixturevalue("kafka_cluster")
                cluster.brokers[2].faults.when("Produce")
            """
        },
        "-q",
        "--kafka-dump=dumps",
    )
    assert outcome.counts()["passed"] == 4, outcome.text
    assert outcome.counts()["failed"] == 2, outcome.text
    assert "this fault rule has no effect: Produce. Give it one" in outcome.text
    assert re.search(r"^-+ kafka cluster, fresh -+$", outcome.text, re.MULTILINE), outcome.text
    assert "in the test" in outcome.text
    pages = {page.name for page in (tree.folder / "dumps").iterdir()}
    assert "test_it.py-test_fails-cluster-fresh.html" in pages

"""Dashboards that people have for Kafka find what they ask for: facts about public ones, in our words.

Left out are queries about Java, ZooKeeper and the machine.
"""

import promql_parser
import pytest

from tests.telemetry.test_grafana_dashboard import matches, samples, selectors_of  # noqa: F401 - a fixture is one of them

ANY = 'instance=~".*"'
OF_TOPIC = 'topic=~".*", topic!="__consumer_offsets"'
QUERIES = {
    "Kafka Exporter Overview (Grafana 7589)": [
        f"sum(rate(kafka_topic_partition_current_offset{{{ANY}, {OF_TOPIC}}}[1m])) by (topic)",
        f"sum(delta(kafka_topic_partition_current_offset{{{ANY}, {OF_TOPIC}}}[5m]) / 5) by (topic)",
        f"sum(delta(kafka_consumergroup_current_offset{{{ANY}, {OF_TOPIC}}}[5m]) / 5) by (consumergroup, topic)",
        f"sum(kafka_consumergroup_lag{{{ANY}, {OF_TOPIC}}}) by (consumergroup, topic)",
        f"sum by (topic) (kafka_topic_partitions{{{ANY}, {OF_TOPIC}}})",
    ],
    "kafka_exporter's own": [
        "sum(kafka_topic_partition_current_offset) by (topic)",
        'sum by (topic) (kafka_topic_partitions{topic!="__consumer_offsets"})',
        "kafka_brokers",
        "kafka_topic_partition_leader",
        "kafka_consumergroup_members",
        "kafka_consumergroup_current_offset_sum",
        "kafka_consumergroup_lag_sum",
    ],
    "Strimzi Kafka Exporter": [
        "count(kafka_topic_partitions)",
        "sum(kafka_topic_partitions)",
        "sum(kafka_topic_partition_replicas)",
        "sum(kafka_topic_partition_in_sync_replica)",
        "sum(kafka_topic_partition_under_replicated_partition)",
        "sum(kafka_cluster_partition_atminisr)",
        "sum(kafka_cluster_partition_underminisr)",
        "count(kafka_topic_partition_leader_is_preferred < 1)",
        "sum(kafka_topic_partition_current_offset - kafka_topic_partition_oldest_offset) by (topic)",
    ],
    "Strimzi Kafka": [
        "count(sum(kafka_server_replicamanager_leadercount) by (pod))",
        "sum(kafka_controller_kafkacontroller_activecontrollercount)",
        "sum(rate(kafka_controller_controllerstats_uncleanleaderelections_total[5m]))",
        "sum(kafka_server_replicamanager_partitioncount)",
        "sum(kafka_server_replicamanager_underreplicatedpartitions)",
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount)",
        "sum(kafka_log_log_size) by (topic, partition)",
        'sum(irate(kafka_server_brokertopicmetrics_bytesin_total{topic!=""}[5m]))',
        'sum(irate(kafka_server_brokertopicmetrics_bytesout_total{topic!=""}[5m]))',
        'sum(irate(kafka_server_brokertopicmetrics_messagesin_total{topic!=""}[5m]))',
        'sum(irate(kafka_server_brokertopicmetrics_totalproducerequests_total{topic!=""}[5m]))',
        'sum(irate(kafka_server_brokertopicmetrics_totalfetchrequests_total{topic!=""}[5m]))',
        'sum(irate(kafka_server_brokertopicmetrics_failedproducerequests_total{topic!=""}[5m]))',
        'sum(irate(kafka_server_brokertopicmetrics_failedfetchrequests_total{topic!=""}[5m]))',
        "sum(kafka_server_socket_server_metrics_connection_count) by (pod)",
        "sum(kafka_network_socketserver_networkprocessoravgidle_percent) by (pod)",
        "sum(kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent) by (pod)",
    ],
    "JMX exporter's examples": [
        "sum(rate(kafka_server_replicamanager_isrshrinks_total[5m]))",
        "sum(rate(kafka_server_replicamanager_isrexpands_total[5m]))",
        "sum(kafka_server_replicamanager_offlinereplicacount)",
        "sum(kafka_controller_kafkacontroller_globaltopiccount)",
        "sum(kafka_controller_kafkacontroller_globalpartitioncount)",
        "kafka_controller_kafkacontroller_activebrokercount",
        "kafka_controller_kafkacontroller_fencedbrokercount",
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount > 0",
        "kafka_log_logmanager_offlinelogdirectorycount",
        "kafka_log_log_logendoffset - kafka_log_log_logstartoffset",
        'sum(rate(kafka_network_requestmetrics_requests_total{request="Produce"}[5m]))',
        'kafka_network_requestmetrics_totaltimems{request="Produce", quantile="0.99"}',
        "kafka_network_requestchannel_requestqueuesize",
    ],
}
ROWS = [(dashboard, query) for dashboard, queries in QUERIES.items() for query in queries]


@pytest.mark.parametrize(("dashboard", "query"), ROWS, ids=[f"{name}: {query}" for name, query in ROWS])
def test_every_query_finds_a_series(samples, dashboard, query):  # noqa: F811 - the fixture
    for selector in selectors_of(promql_parser.parse(query)):
        found = [labels for labels in samples.get(selector.name, ()) if matches(labels, selector.matchers.matchers)]
        assert found, f"{dashboard}: {selector.name}"

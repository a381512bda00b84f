"""A first request of each API, each in a fork of a process that has not loaded the API's modules.

python -m tests.apis.first_requests prints the APIs whose first request loads modules of the broker that `loading.load`
has not loaded, with those modules.
"""

import os
import sys

from pipeline_broker.apis.loading import load
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.apis.desk import Desk

TOPICS = ("t", "__consumer_offsets", "__transaction_state", "__share_group_state")


def records():
    return build_batch([NewRecord(b"value", None, 0)])


def joining(it, topic):
    protocol = it.JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
    return it("g", 10_000, 10_000, "", "instance", "consumer", [protocol])


def producing(it, topic):
    data = it.PartitionProduceData(0, records())
    return it(acks=-1, timeout_ms=1, topic_data=[it.TopicProduceData(topic_id=topic.topic_id, partition_data=[data])])


def fetching(it, topic):
    partition = it.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    return it(topics=[it.FetchTopic(topic_id=topic.topic_id, partitions=[partition])], max_bytes=1_000)


def committing(it, topic):
    partition = it.OffsetCommitRequestPartition(0, 1, -1, "")
    return it("g", topics=[it.OffsetCommitRequestTopic(topic_id=topic.topic_id, partitions=[partition])])


def committing_in_a_transaction(it, topic):
    partition = it.TxnOffsetCommitRequestPartition(0, 0, -1, "")
    return it("x", "g", 0, 0, topics=[it.TxnOffsetCommitRequestTopic("t", partitions=[partition])])


def altering_configs(it, topic):
    def resource(kind, name, setting):
        return it.AlterConfigsResource(kind, name, [it.AlterableConfig(setting, 0, "86400000")])

    return it([resource(4, "", "log.retention.ms"), resource(2, "t", "retention.ms")])


def altering_quotas(it, topic):
    return it([it.EntryData([it.EntityData("user", "u")], [it.OpData("request_percentage", 1.0, False)])])


FIRST_REQUESTS = {
    ApiKey.PRODUCE: producing,
    ApiKey.FETCH: fetching,
    ApiKey.LIST_OFFSETS: lambda it, _: it(-1, topics=[it.ListOffsetsTopic("t", [it.ListOffsetsPartition(0, -1, -1)])]),
    ApiKey.DELETE_RECORDS: lambda it, _: it([it.DeleteRecordsTopic("t", [it.DeleteRecordsPartition(0, 0)])], 1),
    ApiKey.METADATA: lambda it, _: it(topics=None),
    ApiKey.API_VERSIONS: lambda it, _: it("name", "version"),
    ApiKey.INIT_PRODUCER_ID: lambda it, _: it("x", 60_000),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda it, _: it(
        [it.AddPartitionsToTxnTransaction("x", 0, 0, False, [it.AddPartitionsToTxnTopic("t", [0])])]
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda it, _: it("x", 0, 0, "g"),
    ApiKey.END_TXN: lambda it, _: it("x", 0, 0, True),
    ApiKey.TXN_OFFSET_COMMIT: committing_in_a_transaction,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda it, _: it(["x"]),
    ApiKey.LIST_TRANSACTIONS: lambda it, _: it(),
    ApiKey.FIND_COORDINATOR: lambda it, _: it(coordinator_keys=["g"]),
    ApiKey.JOIN_GROUP: joining,
    ApiKey.SYNC_GROUP: lambda it, _: it("g", 1, "m", protocol_type="consumer", protocol_name="range"),
    ApiKey.HEARTBEAT: lambda it, _: it("g", 1, "m"),
    ApiKey.LEAVE_GROUP: lambda it, _: it("g", members=[it.MemberIdentity("m")]),
    ApiKey.OFFSET_COMMIT: committing,
    ApiKey.OFFSET_FETCH: lambda it, _: it(groups=[it.OffsetFetchRequestGroup("g", topics=None)]),
    ApiKey.OFFSET_DELETE: lambda it, _: it("g", [it.OffsetDeleteRequestTopic("t", [])]),
    ApiKey.LIST_GROUPS: lambda it, _: it(),
    ApiKey.DESCRIBE_GROUPS: lambda it, _: it(["g"]),
    ApiKey.DELETE_GROUPS: lambda it, _: it(["g"]),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda it, _: it(
        "g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda it, _: it(["g"]),
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda it, _: it(
        "g",
        "m",
        0,
        rebalance_timeout_ms=10_000,
        topology=it.Topology(1, [it.Subtopology("0", ["t"])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda it, _: it(["g"]),
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda it, _: it("g", "m", 0, subscribed_topic_names=["t"]),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda it, _: it(["g"]),
    ApiKey.SHARE_ACKNOWLEDGE: lambda it, _: it("g", "m", 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda it, _: it("g", []),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda it, _: it("g", []),
    ApiKey.CREATE_TOPICS: lambda it, _: it([it.CreatableTopic("u", 1, 1)], 1),
    ApiKey.CREATE_PARTITIONS: lambda it, _: it([it.CreatePartitionsTopic("t", 2, None)], 1),
    ApiKey.DELETE_TOPICS: lambda it, _: it([it.DeleteTopicState("t")], timeout_ms=1),
    ApiKey.DESCRIBE_CONFIGS: lambda it, _: it([it.DescribeConfigsResource(2, "t"), it.DescribeConfigsResource(4, "")]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: altering_configs,
    ApiKey.ALTER_CLIENT_QUOTAS: altering_quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda it, _: it([], strict=False),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda it, _: it(None),
    ApiKey.UPDATE_FEATURES: lambda it, _: it(1, []),
    ApiKey.CREATE_ACLS: lambda it, _: it([]),
}


def loaded_by(key):
    """Return the modules that the first request of an API loads beyond those in its registry entry."""
    desk = Desk()
    for name in TOPICS:
        desk.create_topic(name)
    version = SERVED[key].versions[-1]
    load(SERVED[key], version)
    message = FIRST_REQUESTS[key](message_classes(key)[0], desk.broker.topics.get("t"))
    if key is ApiKey.TXN_OFFSET_COMMIT:  # an unknown producer is refused before the group is loaded
        producer = desk.ask(InitProducerIdRequest("x", 60_000), 2)
        message.producer_id, message.producer_epoch = producer.producer_id, producer.producer_epoch
    before = set(sys.modules)
    desk.decide(message, version)
    desk.broker.advance(desk.now_ms)
    return sorted(name for name in sys.modules.keys() - before if name.startswith("pipeline_broker."))


def main():
    for key in FIRST_REQUESTS:
        child = os.fork()
        if not child:
            found = loaded_by(key)
            if found:
                print(key.name, *found, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert not status, key.name


if __name__ == "__main__":
    main()

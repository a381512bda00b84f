"""What a client does with kept partitions (`kept.py`): write, delete records, read everything back.

Rules of this file: an intent is noted before its request is sent, an acknowledgement after its answer came; an error in
an answer is an AssertionError, a connection that ends a ConnectionError.
"""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from tests.crashes.kept import NUMBER_HEADER, Found, Held
from tests.crashes.producers import answers_of, produce_request
from tests.crashes.wire_client import fetch_request

EARLIEST = -2
TIMEOUT_MS = 10_000


def record_of(kept, key, value, timestamp_ms):
    """A batch of one record, noted as sent; gives its number, too."""
    number = kept.send(key, value)
    record = NewRecord(value, key, timestamp=timestamp_ms, headers=((NUMBER_HEADER, b"%d" % number),))
    return number, build_batch([record])


def write(client, topic_ids, kept, key, value, timestamp_ms):
    """Write one record and wait for its answer."""
    number, batch = record_of(kept, key, value, timestamp_ms)
    partition = kept.topic, kept.index
    answer = answers_of(client.ask(produce_request(topic_ids, {partition: batch})), topic_ids)[partition]
    assert answer.error_code == ErrorCode.NONE, f"{kept}: record {number} got error {answer.error_code}"
    kept.acknowledged[number] = answer.base_offset


def delete_records(client, kept, offset):
    """Let the log start at an offset."""
    kept.send_start(offset)
    partition = DeleteRecordsRequest.DeleteRecordsPartition(kept.index, offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(kept.topic, [partition])
    (result,) = client.ask(DeleteRecordsRequest([topic], timeout_ms=TIMEOUT_MS)).topics[0].partitions
    assert result.error_code == ErrorCode.NONE, f"{kept}: DeleteRecords to {offset} got error {result.error_code}"
    kept.acknowledge_start(result.low_watermark)


def start_of(client, kept):
    """Where the log starts."""
    partition = ListOffsetsRequest.ListOffsetsPartition(kept.index, timestamp=EARLIEST)
    topic = ListOffsetsRequest.ListOffsetsTopic(kept.topic, [partition])
    (result,) = client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic])).topics[0].partitions
    assert result.error_code == ErrorCode.NONE, f"{kept}: ListOffsets got error {result.error_code}"
    return result.offset


def read_held(client, topic_id, kept):
    """Everything from the start to the end as it is when the first answer comes."""
    start_before = offset = start_of(client, kept)
    records, end = [], None
    while end is None or offset < end:
        answer = client.ask(fetch_request(topic_id, kept.index, offset))
        (data,) = answer.responses[0].partitions
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and start_of(client, kept) > offset:
            offset, records = start_of(client, kept), []  # retention was faster
            continue
        assert data.error_code == ErrorCode.NONE, f"{kept}: Fetch from {offset} got error {data.error_code}"
        end = data.high_watermark if end is None else end
        before = offset
        for header, batch in iterate_batches(data.records or b""):
            records += [_found(record) for record in iterate_records(batch, header) if record.offset >= offset]
            offset = header.last_offset + 1
        assert offset > before or offset >= end, f"{kept}: nothing came from {offset}, and the end is {end}"
    return Held(start_before, start_of(client, kept), end, [record for record in records if record.offset < end])


def _found(record):
    number = int(dict(record.headers)[NUMBER_HEADER])
    return Found(record.offset, number, record.key, record.value)

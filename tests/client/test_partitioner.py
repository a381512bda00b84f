from pipeline_broker.client.partitioner import STICKY_BYTES, Partitioner


def test_a_key_has_one_partition_and_an_empty_key_counts():
    partitioner = Partitioner(5, lambda _: 3)
    # the hashes of Kafka's UtilsTest.testMurmur2, without their sign bits, modulo 5
    for key, hashed in ((b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)):
        assert partitioner.choose(key, 10) == (hashed & 0x7FFFFFFF) % 5
    assert partitioner.choose(b"", 10) == partitioner.choose(b"", 10)


def test_records_without_a_key_stay_in_a_partition_until_it_has_its_share():
    partitioner = Partitioner(3, lambda _: 2)
    chosen = [partitioner.choose(None, STICKY_BYTES // 4) for _ in range(12)]
    assert chosen == [2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1]

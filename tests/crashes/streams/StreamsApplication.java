import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * One instance of a Kafka Streams application of a streams group (KIP-1071): `BOOTSTRAP NAME DIRECTORY THREADS`.
 *
 * `word-count` counts the words of `in` by word, at least once. `totals` counts and sums numbers by key, and then these
 * sums by a bucket of keys, exactly once; each input record has exactly one result in `out`. Both repartition once. The
 * instance closes at the end of its standard input, and halts with 1 after an error.
 */
public final class StreamsApplication {
    static final int BUCKETS = 3;
    static final Aggregator<String, String, String> ADD = (key, value, total) -> {
        String[] parts = total.split(" ");
        return (Long.parseLong(parts[0]) + 1) + " " + (Long.parseLong(parts[1]) + Long.parseLong(value));
    };

    static Topology wordCount() {
        var builder = new StreamsBuilder();
        builder.<String, String>stream("in")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(String::valueOf)
            .to("out");
        return builder.build();
    }

    static Topology totals() {
        var builder = new StreamsBuilder();
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> sums = Materialized.as("sums");
        builder.<String, String>stream("in")
            .groupByKey()
            .aggregate(() -> "0 0", ADD, sums)
            .toStream()
            .map((key, total) -> KeyValue.pair(bucket(key), total.split(" ")[1]))
            .groupByKey(Grouped.as("buckets"))
            .aggregate(() -> "0 0", ADD, Materialized.as(Stores.inMemoryKeyValueStore("totals")))
            .toStream()
            .to("out");
        return builder.build();
    }

    static String bucket(String key) {
        return "b" + Integer.parseInt(key.substring(1)) % BUCKETS;
    }

    static Properties settings(String bootstrap, String name, String directory, String threads) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("application.id", name);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.protocol", "streams");
        settings.put("state.dir", directory);
        settings.put("num.stream.threads", threads);
        settings.put("processing.guarantee", name.equals("totals") ? "exactly_once_v2" : "at_least_once");
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("commit.interval.ms", 100);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("auto.offset.reset", "earliest");
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 100);
        settings.put("retry.backoff.ms", 20);
        settings.put("retry.backoff.max.ms", 100);
        settings.put("producer.transaction.timeout.ms", 3_000);
        settings.put("main.consumer.fetch.max.wait.ms", 50);
        var properties = new Properties();
        properties.putAll(settings);
        return properties;
    }

    public static void main(String[] arguments) throws Exception {
        String name = arguments[1];
        Topology topology = name.equals("totals") ? totals() : wordCount();
        var streams = new KafkaStreams(topology, settings(arguments[0], name, arguments[2], arguments[3]));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((state, before) -> {
            System.out.println("state " + state);
            if (state == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        while (System.in.read() >= 0) { }
        Runtime.getRuntime().halt(streams.close(Duration.ofSeconds(20)) ? 0 : 1);
    }
}

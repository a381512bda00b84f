// Copies with Apache Kafka's own clients, as a member of the group: the rules and the names are those of copier.py.
//
// Started as `Copier BOOTSTRAP SEED NAME NOTES`. What is fatal for the producer, or lasts too long, ends the process.

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Copier {
    static final int PARTITIONS = 4;
    static final double ABORTED_SHARE = 0.1;
    static final double SLOW_SHARE = 0.2;
    static final long SLOW_MS = 200;
    static final int STEP_MS_MAX = 4_000;
    static final long ROUND_MS_MAX = 6_000;
    static final long START_MS_MAX = 15_000;

    /** A value and the partition that it goes to. */
    record Sent(int partition, String value) {}

    final KafkaProducer<String, String> producer;
    final KafkaConsumer<String, String> consumer;
    final OutputStream notes;
    final Random chance;
    final String name;
    List<Future<RecordMetadata>> futures = new ArrayList<>();
    boolean rebalanced = false;
    int count = 0;
    static volatile long roundEndsBefore = System.nanoTime() + START_MS_MAX * 1_000_000;

    Copier(String bootstrap, long seed, String name, OutputStream notes) {
        this.name = name;
        this.notes = notes;
        chance = new Random(seed);
        producer = new KafkaProducer<>(producerSettings(bootstrap), new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer = new KafkaConsumer<>(consumerSettings(bootstrap), new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("in"), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                rebalanced = true;
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                rebalanced = true;
            }
        });
    }

    static Map<String, Object> settings(String bootstrap) {
        var settings = new HashMap<String, Object>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 100);
        settings.put("retry.backoff.ms", 20);
        settings.put("retry.backoff.max.ms", 100);
        return settings;
    }

    static Map<String, Object> producerSettings(String bootstrap) {
        var settings = settings(bootstrap);
        settings.put("transactional.id", "copier-java");
        settings.put("transaction.timeout.ms", 10_000);
        settings.put("max.block.ms", STEP_MS_MAX);
        settings.put("request.timeout.ms", STEP_MS_MAX);
        settings.put("delivery.timeout.ms", STEP_MS_MAX);
        settings.put("linger.ms", 0);
        return settings;
    }

    static Map<String, Object> consumerSettings(String bootstrap) {
        var settings = settings(bootstrap);
        settings.put("group.id", "copying");
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 50);
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("session.timeout.ms", 1000);
        settings.put("heartbeat.interval.ms", 300);
        settings.put("max.poll.interval.ms", 20_000);
        settings.put("max.poll.records", 500);
        return settings;
    }

    void note(String line) throws IOException {
        notes.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    void run() throws Exception {
        while (true) {
            roundEndsBefore = System.nanoTime() + ROUND_MS_MAX * 1_000_000;
            var records = new ArrayList<ConsumerRecord<String, String>>();
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            if (chance.nextDouble() < ABORTED_SHARE) {
                waste();
            }
            if (!records.isEmpty()) {
                copy(records);
            }
        }
    }

    /** Give the transaction a number, and say what it is about to do. */
    void begin(List<ConsumerRecord<String, String>> records, List<Sent> toSend) throws Exception {
        count++;
        String polled = records.stream()
            .map(it -> String.format("[%d, %d, \"%s\"]", it.partition(), it.offset(), it.value()))
            .collect(Collectors.joining(", "));
        var sent = toSend.stream().map(it -> new Sent(it.partition, it.value + " " + name + " " + count)).toList();
        String values = sent.stream()
            .map(it -> String.format("[%d, \"%s\"]", it.partition, it.value))
            .collect(Collectors.joining(", "));
        note(String.format(
            "{\"begin\": %d, \"rebalanced\": %b, \"polled\": [%s], \"sent\": [%s]}", count, rebalanced, polled, values));
        rebalanced = false;
        producer.beginTransaction();
        futures = new ArrayList<>();
        for (Sent it : sent) {
            futures.add(producer.send(new ProducerRecord<>("out", it.partition, null, it.value)));
        }
        if (chance.nextDouble() < SLOW_SHARE) {
            producer.flush();
            Thread.sleep(SLOW_MS);
        }
    }

    void copy(List<ConsumerRecord<String, String>> records) throws Exception {
        try {
            begin(records, records.stream().map(it -> new Sent(it.partition(), it.value())).toList());
            var ends = new HashMap<TopicPartition, OffsetAndMetadata>();
            for (var it : records) {
                ends.put(new TopicPartition("in", it.partition()), new OffsetAndMetadata(it.offset() + 1));
            }
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            note("{\"committing\": " + count + "}");
            producer.commitTransaction();
        } catch (TimeoutException error) {
            throw error; // nobody knows what became of it
        } catch (KafkaException error) {
            abort(error.getClass().getSimpleName());
            rewind(records);
            return;
        }
        var offsets = new ArrayList<Long>();
        for (var future : futures) {
            offsets.add(future.get().offset());
        }
        note("{\"committed\": " + count + ", \"offsets\": " + offsets + "}");
    }

    /** One transaction that never was. */
    void waste() throws Exception {
        try {
            var junk = new ArrayList<Sent>();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                junk.add(new Sent(partition, "junk"));
            }
            begin(List.of(), junk);
            producer.flush();
            abort("junk");
        } catch (TimeoutException error) {
            throw error;
        } catch (KafkaException error) {
            abort(error.getClass().getSimpleName());
        }
    }

    /** What is fatal raises here. */
    void abort(String reason) throws IOException {
        producer.abortTransaction();
        note(String.format("{\"aborted\": %d, \"reason\": \"%s\"}", count, reason));
    }

    /** Read on where an aborted transaction began. */
    void rewind(List<ConsumerRecord<String, String>> records) {
        var starts = new HashMap<TopicPartition, Long>();
        for (var it : records) {
            starts.putIfAbsent(new TopicPartition("in", it.partition()), it.offset());
        }
        starts.keySet().retainAll(consumer.assignment());
        starts.forEach(consumer::seek);
    }

    static void watch() {
        try {
            while (System.nanoTime() < roundEndsBefore) {
                Thread.sleep(100);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        Runtime.getRuntime().halt(1);
    }

    public static void main(String[] arguments) throws Exception {
        var watchdog = new Thread(Copier::watch);
        watchdog.setDaemon(true);
        watchdog.start();
        try (var notes = new FileOutputStream(arguments[3])) {
            new Copier(arguments[0], Long.parseLong(arguments[1]), arguments[2], notes).run();
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }
}

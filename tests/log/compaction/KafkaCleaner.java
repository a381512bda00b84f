// Apache Kafka's own cleaner, without a broker: for each directory named on a line of stdin it opens the log in
// DIRECTORY/topic-0, cleans it round by round as DIRECTORY/rounds says, and copies what is left to DIRECTORY/round-N.
// The first line of `rounds` is: delete.retention.ms, segment size; every other: bound, time, keys that the map holds.
// Prints the checkpoints after the rounds, or the exception.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class KafkaCleaner {
    static final int ENTRY_BYTES = 24;
    static final int BUFFER_BYTES = 1 << 20;

    static final Time TIME = new Time() {
        public long milliseconds() {
            return 0;
        }

        public long nanoseconds() {
            return 0;
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                System.out.println(clean(Path.of(line)));
            } catch (Throwable problem) {
                problem.printStackTrace();
                System.out.println(problem);
            }
        }
        System.exit(0);
    }

    static String clean(Path directory) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        List<String> lines = Files.readAllLines(directory.resolve("rounds"));
        String[] settings = lines.get(0).split(" ");
        LogConfig config = new LogConfig(Map.of(
            "cleanup.policy", "compact",
            "delete.retention.ms", settings[0],
            "internal.segment.bytes", settings[1]));
        UnifiedLog log = UnifiedLog.create(
            directory.resolve("topic-0").toFile(), config, 0, 0, scheduler, new BrokerTopicStats(), TIME,
            Integer.MAX_VALUE, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(1), false, Optional.empty());
        StringBuilder ends = new StringBuilder();
        long end = 0;
        for (int round = 1; round < lines.size(); round++) {
            String[] parts = lines.get(round).split(" ");
            long bound = Long.parseLong(parts[0]);
            if (end < bound) {
                end = cleanOnce(log, end, bound, Long.parseLong(parts[1]), Integer.parseInt(parts[2]));
            }
            ends.append(end).append(' ');
            copySegments(log, directory.resolve("round-" + round));
        }
        scheduler.shutdown(); // nothing may write to the directory once the answer is given
        log.close();
        return ends.toString().trim();
    }

    static long cleanOnce(UnifiedLog log, long firstDirty, long bound, long now, int keys) throws Exception {
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(keys * ENTRY_BYTES), BUFFER_BYTES, BUFFER_BYTES, 1.0,
            new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", TIME), TIME, partition -> { });
        return cleaner.doClean(new LogToClean(log, firstDirty, bound, false), now).getKey();
    }

    static void copySegments(UnifiedLog log, Path target) throws Exception {
        Files.createDirectories(target);
        for (LogSegment segment : log.logSegments()) {
            File file = segment.log().file();
            Files.copy(file.toPath(), target.resolve(file.getName()));
        }
    }
}

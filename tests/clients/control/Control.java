import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.StringSerializer;

/** A test of a client in Java with the control endpoint of a broker. */
public class Control {
    private static final String TOPIC = "orders";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    static JsonNode control(String command, Map<String, Object> arguments) throws Exception {
        Map<String, Object> body = new TreeMap<>(arguments);
        body.put("command", command);
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("CONTROL_URL")))
                .header("Authorization", "Bearer " + System.getenv("CONTROL_TOKEN"))
                .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body)))
                .build();
        HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        expect(response.statusCode() == 200, command + ": " + response.body());
        return JSON.readTree(response.body());
    }

    static void expect(boolean holds, Object found) {
        if (!holds) {
            throw new AssertionError("unexpected: " + found);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"), "retry.backoff.ms", 10, "max.block.ms", 30_000);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(TOPIC, "before the rule")).get();
            List<String> rule = List.of("api=Produce", "topic=" + TOPIC, "nth=1", "error=NOT_LEADER_OR_FOLLOWER");
            control("faults add", Map.of("arguments", rule));
            producer.send(new ProducerRecord<>(TOPIC, "sent twice")).get();
            JsonNode seen = control("requests", Map.of("api", "Produce", "topic", TOPIC, "count", 3, "timeout", "10s"));
            List<JsonNode> errors = seen.get("requests").findValues("errors");
            expect(errors.toString().equals("[[], [\"NOT_LEADER_OR_FOLLOWER\"], []]"), errors);

            control("faults add", Map.of("arguments", List.of("api=Produce", "error=TOPIC_AUTHORIZATION_FAILED")));
            try {
                producer.send(new ProducerRecord<>(TOPIC, "refused")).get();
                throw new AssertionError("the client got no error");
            } catch (ExecutionException error) {
                expect(error.getCause() instanceof TopicAuthorizationException, error);
            }

            JsonNode reset = control("reset", Map.of());
            expect(reset.get("topics").asInt() == 1 && reset.get("rules").asInt() == 2, reset);
            JsonNode left = control("requests", Map.of("api", "Produce"));
            expect(left.get("count").asInt() == 0, left);
        }
        System.out.println("passed");
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Apache Kafka's assignor and topic manager of streams groups: lines of JSON in and out; see test_against_kafka.py. */
public class StreamsOracle {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final Logger LOG = LoggerFactory.getLogger(StreamsOracle.class);

  private record Sizes(JsonNode parts) implements TopologyDescriber {
    @Override
    public List<String> subtopologies() {
      List<String> names = new ArrayList<>();
      parts.fieldNames().forEachRemaining(names::add);
      return names;
    }

    @Override
    public int maxNumInputPartitions(String id) {
      return parts.get(id).get("tasks").asInt();
    }

    @Override
    public boolean isStateful(String id) {
      return parts.get(id).get("stateful").asBoolean();
    }
  }

  private static Map<String, Set<Integer>> tasks(JsonNode node) {
    Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
    node.properties().forEach(entry -> {
      Set<Integer> partitions = new HashSet<>();
      entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
      tasks.put(entry.getKey(), partitions);
    });
    return tasks;
  }

  private static Map<String, Map<Integer, Long>> offsets(JsonNode node) {
    Map<String, Map<Integer, Long>> offsets = new LinkedHashMap<>();
    node.properties().forEach(entry -> {
      Map<Integer, Long> found = new LinkedHashMap<>();
      entry.getValue().properties().forEach(it -> found.put(Integer.valueOf(it.getKey()), it.getValue().asLong()));
      offsets.put(entry.getKey(), found);
    });
    return offsets;
  }

  private static Object assign(JsonNode group) {
    Map<String, MemberMetadataAndStateImpl> members = new LinkedHashMap<>();
    group.get("members").properties().forEach(entry -> {
      JsonNode member = entry.getValue();
      members.put(entry.getKey(), new MemberMetadataAndStateImpl(
          Optional.empty(), Optional.empty(), member.get("process").asText(), Map.of(), tasks(member.get("active")),
          tasks(member.get("standby")), tasks(member.get("warmup")), offsets(member.get("offsets")), Map.of()));
    });
    var configs = new AssignmentConfigsImpl(group.get("standbys").asInt(), List.of());
    var assigned = new StickyTaskAssignor().assign(
        new GroupSpecImpl(members, configs), new Sizes(group.get("subtopologies")));
    Map<String, Object> answer = new HashMap<>();
    assigned.members().forEach((name, member) ->
        answer.put(name, Map.of("active", member.activeTasks(), "standby", member.standbyTasks())));
    return answer;
  }

  private static Object topic(int partitions) {
    Class<?> type = CoordinatorMetadataImage.TopicMetadata.class;
    return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
      if (method.getName().equals("partitionCount")) {
        return partitions;
      }
      throw new UnsupportedOperationException(method.toString());
    });
  }

  private static CoordinatorMetadataImage image(JsonNode topics) {
    Class<?> type = CoordinatorMetadataImage.class;
    return (CoordinatorMetadataImage) Proxy.newProxyInstance(
        type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
          if (method.getName().equals("topicMetadata") && arguments[0] instanceof String name) {
            return Optional.ofNullable(topics.get(name)).map(count -> topic(count.asInt()));
          }
          throw new UnsupportedOperationException(method.toString());
        });
  }

  private static Map<String, Integer> counts(Map<String, ConfiguredInternalTopic> topics) {
    Map<String, Integer> counts = new HashMap<>();
    topics.forEach((name, topic) -> counts.put(name, topic.numberOfPartitions()));
    return counts;
  }

  private static Object configure(JsonNode group) throws Exception {
    var request = StreamsGroupHeartbeatRequestDataJsonConverter.read(group.get("heartbeat"), (short) 1);
    var configured = InternalTopicManager.configureTopics(
        LOG, "group", "member", 0, StreamsTopology.fromHeartbeatRequest(request.topology()),
        image(group.get("topics")), Time.SYSTEM);
    ObjectNode answer = MAPPER.createObjectNode();
    configured.topicConfigurationException().ifPresent(problem -> {
      answer.put("status", problem.status().code());
      answer.put("detail", problem.getMessage());
    });
    configured.subtopologies().ifPresent(subtopologies -> {
      ObjectNode parts = answer.putObject("subtopologies");
      subtopologies.forEach((id, part) -> {
        ObjectNode found = parts.putObject(id);
        found.put("tasks", part.numberOfTasks());
        found.set("repartition", MAPPER.valueToTree(counts(part.repartitionSourceTopics())));
        found.set("changelogs", MAPPER.valueToTree(counts(part.stateChangelogTopics())));
      });
    });
    ObjectNode missing = answer.putObject("create");
    configured.internalTopicsToBeCreated().forEach((name, topic) -> {
      ObjectNode found = missing.putObject(name);
      found.put("partitions", topic.numPartitions());
      found.put("replication_factor", topic.replicationFactor());
      ObjectNode configs = found.putObject("configs");
      topic.configs().forEach(config -> configs.put(config.name(), config.value()));
    });
    return answer;
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode group = MAPPER.readTree(line);
      Object answer;
      try {
        answer = group.has("heartbeat") ? configure(group) : assign(group);
      } catch (RuntimeException error) {
        answer = Map.of("error", error.getClass().getSimpleName() + ": " + error.getMessage());
      }
      System.out.println(MAPPER.writeValueAsString(answer));
      System.out.flush();
    }
  }
}

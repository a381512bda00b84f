import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Avro's own library: what it makes of two schemas, line by line; see campaign.py. */
public class AvroOracle {
  private static Schema parse(String text) {
    Schema.Parser parser = new Schema.Parser();
    parser.setValidateDefaults(true);
    return parser.parse(text);
  }

  private static Schema parse(ObjectMapper mapper, JsonNode pair, String name, ObjectNode answer) {
    try {
      Schema schema = parse(pair.get(name).asText());
      answer.put(name, schema.toString());
      return schema;
    } catch (RuntimeException error) {
      return null;
    }
  }

  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode pair = mapper.readTree(line);
      ObjectNode answer = mapper.createObjectNode();
      Schema reader = parse(mapper, pair, "reader", answer);
      Schema writer = parse(mapper, pair, "writer", answer);
      if (reader != null && writer != null) {
        answer.put("equal", reader.equals(writer));
        answer.put("compatible", SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType()
            == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE);
      }
      System.out.println(mapper.writeValueAsString(answer));
    }
  }
}

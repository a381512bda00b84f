import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints the name and the number of each error code of Kafka, and whether a client may retry after it. */
class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            System.out.println(error.name() + " " + error.code() + " " + (error.exception() instanceof RetriableException));
        }
    }
}

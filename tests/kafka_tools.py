"""Runs Apache Kafka's own programs, from the jars that the product fetches once, by Maven, into the user's cache."""

import subprocess

from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.kafka_process import fetch_jars
from tests.required import absent, without
from tests.short_java import SHORT_JAVA

SECONDS_MAX = 60
LOGGING = """
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
rootLogger.level = ERROR
rootLogger.appenderRef.stderr.ref = stderr
"""


def what_is_missing(*programs):
    """Why Kafka's programs cannot be run here, None where they can; jars that are not here are fetched."""
    if reason := without("java", *programs):
        return reason
    try:
        fetch_jars()
    except ExperimentError as error:
        return str(error)
    return None


def require_kafka(*programs):
    """End the test where Kafka's programs, and others beside Java, cannot be run."""
    if reason := what_is_missing(*programs):
        absent(reason)


def class_path():
    """Kafka's jars, as Java takes them."""
    return f"{fetch_jars()}/*"


def java_command(directory):
    """Java for a small program, with what is logged on its standard error; the directory is for its settings."""
    logging = directory / "log4j2.properties"  # one of the jars has a configuration that writes to stdout
    logging.write_text(LOGGING)
    return ["java", "-Xmx256m", *SHORT_JAVA.split(), "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={logging}"]


def kafka_tool(directory):
    """A function that runs a tool: its class, its arguments, its input; it gives the ended process."""
    command_of = tool_command(directory)

    def run(name, *arguments, text=""):
        command = command_of(name, *arguments)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run


def tool_command(directory):
    """A function that gives the command of a tool, for tests that end it themselves: its class, its arguments."""
    require_kafka()
    java = java_command(directory)

    def command(name, *arguments):
        full_name = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
        options = class_archive(directory.parent / "kafka-tools.jsa")
        return [*java, *options, "-cp", class_path(), full_name, *arguments]

    return command


def class_archive(path):
    """Options with which Java starts twice as fast: the first tool of a worker writes its classes, later ones map them.

    Source: JEP 350. What Java says of classes that it cannot archive would stand among what a tool prints.
    """
    kind = "SharedArchiveFile" if path.exists() else "ArchiveClassesAtExit"
    return [f"-XX:{kind}={path}", "-Xlog:disable"]

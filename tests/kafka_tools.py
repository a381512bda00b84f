"""Apache Kafka's own programs, run from jars that Maven fetches once into the user's cache."""

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
    """Return why Kafka's programs cannot run here, or None. Fetches missing jars."""
    if reason := without("java", *programs):
        return reason
    try:
        fetch_jars()
    except ExperimentError as error:
        return str(error)
    return None


def require_kafka(*programs):
    """Skip the test if Kafka's programs, or other required ones, cannot run."""
    if reason := what_is_missing(*programs):
        absent(reason)


def class_path():
    return f"{fetch_jars()}/*"


def java_command(directory):
    """Return a Java command for a small program that logs to standard error; the directory is for its settings."""
    logging = directory / "log4j2.properties"  # one of the jars has a configuration that writes to stdout
    logging.write_text(LOGGING)
    return ["java", "-Xmx256m", *SHORT_JAVA.split(), "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={logging}"]


def kafka_tool(directory):
    """Return a function that runs a tool by its class, arguments and input, and returns the completed process."""
    command_of = tool_command(directory)

    def run(name, *arguments, text=""):
        command = command_of(name, *arguments)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run


def tool_command(directory):
    """Return a function that returns the command of a tool, for tests that end it themselves."""
    require_kafka()
    java = java_command(directory)

    def command(name, *arguments):
        full_name = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
        options = class_archive(directory.parent / "kafka-tools.jsa")
        return [*java, *options, "-cp", class_path(), full_name, *arguments]

    return command


def class_archive(path):
    """Return options that halve Java's startup time.

    The first tool of a worker archives its classes; later ones map them (JEP 350). Java's warnings about classes that
    it cannot archive would mix with the output of a tool.
    """
    kind = "SharedArchiveFile" if path.exists() else "ArchiveClassesAtExit"
    return [f"-XX:{kind}={path}", "-Xlog:disable"]

"""Apache Kafka's own programs, run from jars that Maven fetches once into the user's cache."""

import fcntl
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.kafka_process import DEFAULT_VERSION, VERSION, KafkaSettings, fetch_jars
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


def require_the_followed_kafka(*programs):
    """Like `require_kafka`, for tests of what this broker has from its release of Kafka."""
    require_kafka(*programs)
    if VERSION != DEFAULT_VERSION:
        pytest.skip(f"this broker follows Kafka {DEFAULT_VERSION}")


def require_kafka_streams():
    """Skip the test if Kafka and applications of Kafka Streams cannot run."""
    require_kafka("javac")
    try:
        fetch_jars("kafka-streams")
    except ExperimentError as error:
        absent(str(error))


def class_path():
    return f"{fetch_jars()}/*"


def streams_class_path():
    return f"{class_path()}:{fetch_jars('kafka-streams')}/*"  # the archive of classes is for paths with this beginning


def java_command(directory):
    """Return a Java command for a small program that logs to standard error; the directory is for its settings."""
    logging = directory / "log4j2.properties"  # one of the jars has a configuration that writes to stdout
    logging.write_text(LOGGING)
    options = [*SHORT_JAVA.split(), *class_archive(), "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={logging}"]
    return ["java", "-Xmx256m", *options]


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
        return [*java, "-cp", class_path(), full_name, *arguments]

    return command


def class_archive():
    """Return options that halve the startup time of Kafka and its tools: they map archived classes (JEP 350).

    The archive is in the user's cache, for these jars and this Java. The first process that needs it makes it, by a run
    of Kafka; others start without it in the meantime. Java's warnings would mix with the output of a tool.
    """
    jars = fetch_jars()
    made_ns = Path(shutil.which("java")).resolve().stat().st_mtime_ns
    archive = jars.with_name(f"{jars.name}-{made_ns}.jsa")
    if not archive.exists():
        with archive.with_suffix(".lock").open("w") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            make_archive(archive)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.exists() else []


def make_archive(archive):
    """Archive the classes that a run of Kafka loads; nothing if Kafka is killed before it has written them."""
    with TemporaryDirectory(dir=archive.parent, prefix=".archive-") as folder, pytest.MonkeyPatch.context() as patch:
        made = Path(folder) / archive.name
        patch.setenv("JDK_JAVA_OPTIONS", f"{SHORT_JAVA} -XX:ArchiveClassesAtExit={made} -Xlog:disable")
        kafka = KafkaSettings("kafka", Path(folder) / "data").start()
        try:
            kafka.wait_ready()
        finally:
            kafka.stop()
        patch.delenv("JDK_JAVA_OPTIONS")
        options = [*SHORT_JAVA.split(), f"-XX:SharedArchiveFile={made}", "-Xshare:on", "-cp", class_path()]
        if subprocess.run(["java", *options, "-version"], capture_output=True, check=False).returncode == 0:
            made.rename(archive)


def short_java():
    """Return Java options for a broker of Kafka that runs for a moment, as text."""
    return " ".join([SHORT_JAVA, *class_archive()])

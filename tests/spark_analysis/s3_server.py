"""An object store that speaks S3, a process on 127.0.0.1, with the settings that Spark needs to reach it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request

from spark_analysis.jars import Jar, fetched_jars

HADOOP_VERSION = "3.4.1"
"""The one of PySpark 4.0."""
SDK_VERSION = "2.25.31"
STOP_SECONDS_MAX = 20.0
PAGE_MAX = 100
"""Names in a listing, unless the client asks for more: moto takes long for a thousand objects."""
#: moto looks for an object, and writes it later in the same request: of several at once, in its threads, two may win.
PROGRAM = """
import sys
from threading import Lock
from moto.moto_server import threaded_moto_server
from moto.server import ThreadedMotoServer

one_at_a_time = Lock()


class OneAtATime(threaded_moto_server.DomainDispatcherApplication):
    def __call__(self, *arguments):
        with one_at_a_time:
            return super().__call__(*arguments)


threaded_moto_server.DomainDispatcherApplication = OneAtATime
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
"""


def s3a_jars():
    """Return Hadoop's connector and the parts of AWS's SDK that it uses; the whole SDK is half a gigabyte."""
    sdk = [Jar("software.amazon.awssdk", part, SDK_VERSION, ()) for part in ("s3", "s3-transfer-manager", "sts")]
    wanted = [Jar("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION), *sdk]
    return fetched_jars(f"hadoop-aws-{HADOOP_VERSION}", "Hadoop's S3 connector", wanted)


@contextlib.contextmanager
def open_s3_server():
    """Yield the address; the server ends, without its data, at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE_MAX)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def put(address, path, content=b""):
    """Create a bucket, or an object in one."""
    ask(address, path, method="PUT", data=content)


def get(address, path):
    return ask(address, path)


def ask(address, path, **request):
    headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}
    headers["Content-Type"] = "application/octet-stream"  # urllib's own would make it a form
    with urllib.request.urlopen(
        urllib.request.Request(f"{address}/{path}", headers=headers, **request), timeout=STOP_SECONDS_MAX
    ) as answer:
        return answer.read()


def settings(address):
    """Return lines of spark-defaults.conf."""
    return {
        "spark.jars": s3a_jars(),
        "spark.hadoop.fs.s3a.endpoint": address,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": "test",
        "spark.hadoop.fs.s3a.secret.key": "test",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }

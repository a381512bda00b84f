"""A file or folder at any address that Spark reads: `file://`, `s3a://`, `hdfs://`, or a path of this machine.

Rules: everything goes through the Hadoop file systems of the session, as Spark's own reading and writing does: one set
of settings, credentials and jars for all of it. An address without a scheme is a path of this machine, whatever
`fs.defaultFS` says. What a file system refuses is one line that names the address.
"""

from __future__ import annotations

import contextlib
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_analysis.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

_LOCAL: Final = re.compile(r"file:(?://)?(?=/)")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_GLOB: Final = re.compile(r"([\\*?\[\]{}])")
_PARQUET_COLUMN: Final = re.compile(r"^  (?:optional|required) (\w+) (\w+)", re.MULTILINE)
_STRING: Final = re.compile(r"binary(?= \w+ \((?:STRING|UTF8)\))")
_PARQUET_TYPES: Final = {"int32": "int", "int64": "bigint"}


def local_path(address: str | Path) -> Path | None:
    """The path of an address on this machine; None of one elsewhere."""
    text = str(address)
    if found := _LOCAL.match(text):
        return Path(text[found.end() :])
    return None if _SCHEME.match(text) else Path(text)


class Location:
    """One address.

    Args:
        spark: the session whose file systems are used.
        address: a path, or an address with a scheme.
    """

    def __init__(self, spark: SparkSession, address: str | Path) -> None:
        self.spark = spark
        path = local_path(address)
        self._shown = str(address).rstrip("/") if path is None else str(path)
        self.uri = self._shown if path is None else f"file://{path.resolve()}"

    def __str__(self) -> str:
        """As people write it: a path where it is one."""
        return self._shown

    def __truediv__(self, name: str) -> Location:
        """What is called so in this folder."""
        return Location(self.spark, f"{self._shown}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._shown.rsplit("/", 1)[-1]

    @property
    def pattern(self) -> str:
        """The address as Spark's readers take it: they would expand a `*` in a name."""
        return _GLOB.sub(r"\\\1", self.uri)

    def is_folder(self) -> bool:
        """Whether there is a folder; of an object store: whether an object begins so."""
        return bool(self._call(lambda files, path: files.exists(path) and files.getFileStatus(path).isDirectory()))

    def folders(self) -> list[str]:
        """The names of the folders in this one, sorted."""
        found = self._call(lambda files, path: [each for each in files.listStatus(path) if each.isDirectory()])
        return sorted(each.getPath().getName() for each in found)

    def files(self) -> dict[str, int]:
        """The files in this folder and in its folders, as paths below it, and their bytes."""

        def walk(files: Any, path: Any) -> dict[str, int]:
            above = len(files.makeQualified(path).toString()) + 1
            return {each.getPath().toString()[above:]: int(each.getLen()) for each in self._below(files, path)}

        return dict(self._call(walk))

    def parquet_columns(self) -> dict[str, str] | None:
        """The columns of the first Parquet file in this folder and their types, as Spark names these; None without one.

        They stand at the end of the file: no job is needed to read them.
        """

        def read(files: Any, path: Any) -> str | None:
            every = (each.getPath() for each in self._below(files, path))
            first = next((each for each in every if each.getName().endswith(".parquet")), None)
            if first is None:
                return None
            jvm = _jvm(self.spark)
            source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(first, files.getConf())
            reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
            try:
                return str(reader.getFileMetaData().getSchema().toString())
            finally:
                reader.close()

        text = self._call(read)
        if text is None:
            return None
        return {
            name: _PARQUET_TYPES.get(kind, kind) for kind, name in _PARQUET_COLUMN.findall(_STRING.sub("string", text))
        }

    def size_bytes(self) -> int:
        """Of all files in this folder and the folders in it."""
        return int(self._call(lambda files, path: files.getContentSummary(path).getLength()))

    def read_text(self) -> str | None:
        """The text of this file, UTF-8; None where there is no file."""

        def read(files: Any, path: Any) -> bytes | None:
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        found = self._call(read)
        try:
            return None if found is None else str(found, "utf-8")
        except UnicodeDecodeError as error:
            raise TraceError(f"{self}: not readable as text: {error}") from None

    def write_text(self, text: str) -> None:
        """Make or replace this file: it is written beside its place and renamed, so that no reader sees half of it."""
        fresh = Location(self.spark, f"{self._shown[: -len(self.name)]}.{self.name}.new")

        def write(files: Any, path: Any) -> None:
            stream = files.create(path, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

        with self.without_checksums():
            fresh._call(write)
        fresh.rename(self)

    @contextlib.contextmanager
    def without_checksums(self) -> Iterator[None]:
        """Write no checksums beside local files: they are hidden, and would damage what another tool has replaced."""
        self._call(lambda files, _: files.setWriteChecksum(False))
        try:
            yield
        finally:
            self._call(lambda files, _: files.setWriteChecksum(True))

    def rename(self, target: Location) -> None:
        """Give this file or folder another address in the same file system, in the place of what is there."""

        def rename(files: Any, path: Any) -> None:
            to = _path(target)
            files.delete(to, True)
            if not files.rename(path, to):
                raise TraceError(f"{self}: cannot be renamed to {target}")

        mine, other = local_path(self.uri), local_path(target.uri)
        if mine is not None and other is not None and mine.is_file():
            mine.replace(other)  # at once, which Hadoop's file system of this machine does not do
        else:
            self._call(rename)

    def remove(self) -> None:
        """Remove this file, or this folder with all that is in it, if it is there."""
        self._call(lambda files, path: files.delete(path, True))

    def _below(self, files: Any, path: Any) -> Iterator[Any]:
        """The files in a folder and in its folders, by one listing where that is a store of objects.

        On this machine Hadoop would start an `ls` for each file of such a listing, to learn who may read it.
        """
        if local_path(self.uri) is None:
            every = files.listFiles(path, True)
            while every.hasNext():
                yield every.next()
            return
        for each in files.listStatus(path):
            if each.isDirectory():
                yield from self._below(files, each.getPath())
            else:
                yield each

    def _call(self, ask: Callable[[Any, Any], Any]) -> Any:
        error: type[Any] = import_module("py4j.protocol").Py4JJavaError  # comes with PySpark
        try:
            path = _path(self)
            return ask(path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), path)  # noqa: SLF001 - no public way
        except error as failure:
            reason = str(failure.java_exception.getMessage()).splitlines()
            raise TraceError(
                f"{self}: {reason[0] if reason else failure.java_exception.getClass().getName()}"
            ) from None


def _path(location: Location) -> Any:
    return _jvm(location.spark).org.apache.hadoop.fs.Path(location.uri)


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm  # noqa: SLF001 - no public way

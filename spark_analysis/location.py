"""A file or folder at any address that Spark reads: `file://`, `s3a://`, `hdfs://`, or a path of this machine.

All access uses the Hadoop file systems of the session, like Spark itself, so one set of settings, credentials and jars
is enough. An address without a scheme is a path of this machine, whatever `fs.defaultFS` is.
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
    """Return the path of an address on this machine; None for other addresses."""
    text = str(address)
    if found := _LOCAL.match(text):
        return Path(text[found.end() :])
    return None if _SCHEME.match(text) else Path(text)


class Location:
    """An address of a file or folder. Methods that access it raise TraceError if the file system fails.

    Args:
        spark: the session whose file systems are used.
        address: a path, or an address with a scheme.
    """

    def __init__(self, spark: SparkSession, address: str | Path) -> None:
        self.spark = spark
        path = local_path(address)
        self._shown = str(address).rstrip("/") if path is None else str(path)
        # Always with a scheme: Hadoop would resolve a bare path against `fs.defaultFS`.
        self.uri = self._shown if path is None else f"file://{path.resolve()}"

    def __str__(self) -> str:
        return self._shown

    def __truediv__(self, name: str) -> Location:
        return Location(self.spark, f"{self._shown}/{name}")

    @property
    def name(self) -> str:
        return self._shown.rsplit("/", 1)[-1]

    @property
    def pattern(self) -> str:
        """The address for Spark's readers, escaped because they expand wildcards such as `*`."""
        return _GLOB.sub(r"\\\1", self.uri)

    def is_folder(self) -> bool:
        """Return whether the folder exists; in an object store, whether an object has this prefix."""
        return bool(self._call(lambda files, path: files.exists(path) and files.getFileStatus(path).isDirectory()))

    def folders(self) -> list[str]:
        found = self._call(lambda files, path: [each for each in files.listStatus(path) if each.isDirectory()])
        return sorted(each.getPath().getName() for each in found)

    def files(self) -> dict[str, int]:
        """Return the sizes in bytes of all files below this folder, by relative path."""

        def walk(files: Any, path: Any) -> dict[str, int]:
            above = len(files.makeQualified(path).toString()) + 1
            return {each.getPath().toString()[above:]: int(each.getLen()) for each in self._below(files, path)}

        return dict(self._call(walk))

    def parquet_columns(self) -> dict[str, str] | None:
        """Return the columns and Spark types of the first Parquet file in this folder; None without such a file.

        The footer of the file contains the columns, so reading them needs no job.
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
        return int(self._call(lambda files, path: files.getContentSummary(path).getLength()))

    def read_text(self) -> str | None:
        """Return the text of this file, or None if it does not exist. Raises TraceError if it is not UTF-8."""

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
            raise TraceError(f"{self} is not readable as text: {error}") from None

    def write_text(self, text: str) -> None:
        """Create or replace this file: write a temporary file and rename it.

        No reader sees half of the text.
        """
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
        """Write no checksum files beside local files.

        Checksum files are hidden. If another tool replaces a file, its old checksum would make Hadoop report the file
        as damaged.
        """
        self._call(lambda files, _: files.setWriteChecksum(False))
        try:
            yield
        finally:
            self._call(lambda files, _: files.setWriteChecksum(True))

    def rename(self, target: Location) -> None:
        """Move this file or folder to `target` in the same file system. Replace an existing target."""

        def rename(files: Any, path: Any) -> None:
            to = _path(target)
            # Hadoop's rename does not replace a target.
            files.delete(to, True)
            if not files.rename(path, to):
                raise TraceError(f"{self} cannot be renamed to {target}")

        mine, other = local_path(self.uri), local_path(target.uri)
        if mine is not None and other is not None and mine.is_file():
            mine.replace(other)  # atomic, unlike Hadoop's local file system
        else:
            self._call(rename)

    def remove(self) -> None:
        self._call(lambda files, path: files.delete(path, True))

    def _below(self, files: Any, path: Any) -> Iterator[Any]:
        """Yield the files below a folder.

        An object store needs one listing. On this machine, Hadoop would run `ls` for each file of such a listing to
        read its permissions, so each folder is listed separately.
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
            reason = (failure.java_exception.getMessage() or "").splitlines()
            raise TraceError(
                f"{self}: {reason[0] if reason else failure.java_exception.getClass().getName()}"
            ) from None


def _path(location: Location) -> Any:
    return _jvm(location.spark).org.apache.hadoop.fs.Path(location.uri)


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm  # noqa: SLF001 - no public way

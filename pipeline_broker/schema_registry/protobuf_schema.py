"""Protobuf schemas: parsing, the stored form, and the descriptor for clients.

Google's compiler (`protoc`, from grpcio-tools) compiles source, and Google's library checks descriptors. A client may
send a descriptor in base64 instead of source, as confluent-kafka's serializer does; the registry stores it as source.
Imports are registered schemas or known files (`protobuf_known`).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from pipeline_broker.base.schema_id import MessagePath
from pipeline_broker.schema_registry.errors import invalid_schema
from pipeline_broker.schema_registry.protobuf_form import clear_options, normalized, sketch_of
from pipeline_broker.schema_registry.protobuf_known import KNOWN
from pipeline_broker.schema_registry.protobuf_text import text_of

__all__ = ["ProtobufFile", "canonical", "identity", "parse", "record_names", "serialized", "sketch", "top_level_names"]

# Bytes of the compiler's messages in an error. The compiler writes a line for each mistake, with names from the schema.
ERROR_BYTES_MAX = 1_000
MAIN = "schema.proto"
# The compiler has the files of this directory itself.
COMPILER_HAS = "google/protobuf/"
# An import becomes a file in a temporary directory, so its name must be relative and stay below it.
SAFE_NAME = re.compile(r"(?!/)(?!.*(?:^|/)\.{1,2}(?:/|$))[A-Za-z0-9_./-]{1,200}\.proto")


@attrs.frozen
class ProtobufFile:
    """A schema and the registered schemas that it imports.

    Attributes:
        root: the descriptor of the schema.
        imported: descriptors of its imports, direct or not, by name.
    """

    root: FileDescriptorProto
    imported: Mapping[str, FileDescriptorProto]

    def pool(self) -> descriptor_pool.DescriptorPool:
        """Return a pool of all descriptors, which the library has checked.

        Raises:
            RegistryError: a descriptor is invalid.
        """
        pool = descriptor_pool.DescriptorPool()
        try:
            for name in self._known_names():
                pool.AddSerializedFile(KNOWN[name].SerializeToString())
            for file in (*self.imported.values(), self.root):
                pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            raise invalid_schema(f"Invalid schema, details: {str(error)[:500]}") from None
        return pool

    def _known_names(self) -> list[str]:
        waiting = [name for file in (*self.imported.values(), self.root) for name in file.dependency]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in KNOWN and name not in self.imported and name not in found:
                found.add(name)
                waiting += KNOWN[name].dependency
        return [name for name in KNOWN if name in found]  # each after its imports


def parse(text: str, dependencies: Mapping[str, str]) -> ProtobufFile:
    """Parse a schema.

    Args:
        text: source, or a descriptor in base64.
        dependencies: the schemas that it imports, by name. Each follows its own imports.

    Raises:
        RegistryError: the schema or one of its dependencies is invalid.
    """
    given = {name: _descriptor(content) for name, content in dependencies.items()}
    root = _descriptor(text)
    if root is None:
        root, imported = _compiled(text, dependencies, given)
    elif None in given.values():  # compile the imports only: source made of `root` could lose its options
        imports = "".join(f'import "{name}";\n' for name in dependencies)
        _, imported = _compiled(f'syntax = "proto3";\n{imports}', dependencies, given)
    else:
        imported = {name: file for name, file in given.items() if file is not None}
    for name, file in imported.items():
        file.name = name
    parsed = ProtobufFile(root, imported)
    parsed.pool()
    return parsed


def _descriptor(text: str) -> FileDescriptorProto | None:
    try:
        data = base64.b64decode(text, validate=True)
        file = FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    # Short source may be valid base64, so the result must look like a descriptor.
    return file if file.name or file.message_type or file.enum_type else None


def _compiled(
    text: str,
    dependencies: Mapping[str, str],
    given: Mapping[str, FileDescriptorProto | None],
) -> tuple[FileDescriptorProto, dict[str, FileDescriptorProto]]:
    for name in dependencies:
        if not SAFE_NAME.fullmatch(name):
            raise invalid_schema(
                f"Invalid schema, details: {name[:200]!r} cannot be imported: use a relative path that ends in .proto"
            )
    # An import may have the name of the main file.
    main = next(name for name in (MAIN, f"_{MAIN}", f"__{MAIN}") if name not in dependencies)
    with tempfile.TemporaryDirectory(prefix="protoc-") as folder:
        texts = {name: text_of(file) for name, file in KNOWN.items() if not name.startswith(COMPILER_HAS)}
        for name, content in dependencies.items():
            file = given[name]
            texts[name] = content if file is None else text_of(file)
        for name, content in texts.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        Path(folder, main).write_text(text, encoding="utf-8")
        found = _run_protoc(folder, main)
    files = {file.name: file for file in found.file}
    return files.pop(main), {name: files[name] for name in files if name in dependencies}


def _run_protoc(folder: str, main: str) -> FileDescriptorSet:
    from grpc_tools import protoc  # noqa: PLC0415 - not needed for descriptors, which many clients send

    out, errors = Path(folder, ".out"), Path(folder, ".errors")
    with _standard_error_in(errors):
        status = protoc.main(
            [
                "protoc",
                f"-I{folder}",
                f"-I{Path(protoc.__file__).with_name('_proto')}",  # google/protobuf
                f"--descriptor_set_out={out}",
                "--include_imports",
                "--retain_options",  # also those that only matter in source: they are part of the schema
                str(Path(folder, main)),
            ]
        )
    if status or not out.exists():
        raise invalid_schema(f"Invalid schema, details: {_messages(errors, folder) or 'protoc cannot compile it'}")
    return FileDescriptorSet.FromString(out.read_bytes())


def _messages(errors: Path, folder: str) -> str:
    with errors.open("rb") as file:
        text = file.read(ERROR_BYTES_MAX + 1)
    # A message that is cut off may end within the path of the folder, which clients must not see.
    whole = text if len(text) <= ERROR_BYTES_MAX else text[: text.rfind(b"\n") + 1]
    lines = whole.decode(errors="replace").replace(f"{folder}/", "").splitlines()
    return "\n".join(line for line in lines if not _is_of_the_log(line))


def _is_of_the_log(line: str) -> bool:
    """Return whether the compiler's logging wrote a line, such as "W0000 00:00:17.9 2 parser.cc:659] ..."."""
    return line[:1] in {*"IWEF"} and line[1:5].isdecimal() and ".cc:" in line.partition("] ")[0]


@contextlib.contextmanager
def _standard_error_in(path: Path) -> Iterator[None]:
    # The compiler writes its messages to file descriptor 2 only.
    before, file = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def canonical(text: str, parsed: ProtobufFile, *, is_normalized: bool) -> str:
    """Return the stored form of a schema: its source as the client sent it, or source generated from its descriptor.

    Source is generated if the client sent a descriptor, or if `is_normalized` is True.

    Raises:
        RegistryError: no source compiles to the descriptor, or an option is undefined.
    """
    if not is_normalized and _descriptor(text) is None:
        return text.strip()
    try:
        pool = parsed.pool()
        return text_of(normalized(parsed.root, pool) if is_normalized else parsed.root, pool)
    except ValueError as error:
        raise invalid_schema(f"Invalid schema, details: {error}") from None


def sketch(text: str) -> str:
    """Return a text that equal schemas share; different ones may share it too."""
    file = _descriptor(text)
    return sketch_of(text if file is None else _plain_text(file))


def _plain_text(file: FileDescriptorProto) -> str:
    plain = FileDescriptorProto.FromString(file.SerializeToString())
    # The names of custom options need the imports, which a sketch does without.
    clear_options(plain)
    return text_of(plain)


def identity(parsed: ProtobufFile) -> str:
    """Return the same text for equal schemas, and only for these, whether a client sent source or a descriptor.

    Raises:
        RegistryError: an option is not defined in an imported file.
    """
    try:
        data: bytes = normalized(parsed.root, parsed.pool()).SerializeToString(deterministic=True)
    except ValueError as error:
        raise invalid_schema(f"Invalid schema, details: {error}") from None
    return data.hex()


def serialized(parsed: ProtobufFile) -> str:
    return base64.b64encode(parsed.root.SerializeToString()).decode()


def top_level_names(parsed: ProtobufFile) -> list[str]:
    return [field.name for message in parsed.root.message_type[:1] for field in message.field]


def record_names(parsed: ProtobufFile) -> Iterator[tuple[MessagePath, str]]:
    package = parsed.root.package
    return _message_names((), f"{package}." if package else "", parsed.root.message_type)


def _message_names(
    path: MessagePath, prefix: str, messages: Iterable[DescriptorProto]
) -> Iterator[tuple[MessagePath, str]]:
    for index, message in enumerate(messages):
        name = f"{prefix}{message.name}"
        yield (*path, index), name
        yield from _message_names((*path, index), f"{name}.", message.nested_type)

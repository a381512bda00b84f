"""Compare the registry with others: Confluent's tables of differences, Avro's library for Java, Karapace's tests.

    python -m tests.schema_registry.campaign --karapace
    python -m tests.schema_registry.campaign --tables FOLDER
    python -m tests.schema_registry.campaign --avro-jars FOLDER [--pairs 4000] [--seed 1]

The folder of tables contains JSON files from confluentinc/schema-registry, `diff-*schema-examples*.json`: lists of an
original and an updated schema, with whether they are compatible. They belong to Confluent and are not in this
repository. The folder of jars contains avro and jackson, like PySpark's `jars`. The campaign prints each difference,
and the number of cases tried and passed. It exits with 1 if there is a difference.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pipeline_broker.base.strict_json import RawJson
from pipeline_broker.schema_registry import avro_schema
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.formats import ResolvedSchema, incompatibilities, reserved_differences
from pipeline_broker.schema_registry.values import Schema, SchemaType
from tests.schema_registry.karapace_pairs import DIFFERENCES, ROWS

# Faults that Java accepts: such defaults, and a type that is defined again within itself
# (docs/guides/schema-registry.md).
STRICTER = re.compile(
    r'Invalid default .* is not a value of the type .*("bytes"|"fixed"|"enum")'
    r"|A type is defined twice with different contents"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--karapace", action="store_true")
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--avro-jars", type=Path)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    wrong = karapace() if wanted.karapace else 0
    for path in sorted(wanted.tables.rglob("*.json")) if wanted.tables else ():
        wrong += table(path)
    if wanted.avro_jars:
        wrong += avro(wanted.avro_jars, wanted.pairs, random.Random(wanted.seed))
    sys.exit(bool(wrong))


def karapace():
    """Return the number of Karapace's pairs with another verdict here, without those whose difference is listed."""
    listed = {pair_text(*pair): reason for reason, pairs in DIFFERENCES.items() for pair in pairs}
    wrong = 0
    for kind, reader, writer, verdict in ROWS:
        differs = judged(kind, reader, writer) is not verdict
        if differs is not ((pair := pair_text(reader, writer)) in listed):
            wrong += 1
            print(f"  {kind}: {pair}: it is {verdict} there{', as here' if not differs else ''}")
    print(f"Karapace: {len(ROWS)} pairs, {len(listed)} differ for a listed reason, {wrong} wrong")
    return wrong


def pair_text(reader, writer):
    return json.dumps([reader, writer])


def judged(kind, reader, writer):
    """Return whether the reader's schema is compatible with the writer's; an invalid one is not."""
    schemas = (
        Schema(SchemaType[kind], content if kind == "PROTOBUF" else json.dumps(content)) for content in (reader, writer)
    )
    try:
        return not incompatibilities(*(ResolvedSchema(schema, ()) for schema in schemas))
    except RegistryError:
        return False


def table(path):
    """Return the number of wrong rows in a table."""
    rows = json.loads(re.sub(r",(\s*[}\]])", r"\1", path.read_text(encoding="utf-8")))  # one file has trailing commas
    wrong = [row for row in rows if is_compatible(row) is not row["compatible"]]
    for row in wrong:
        print(f"  {path.name}: {row['description']}: it is {row['compatible']}")
    print(f"{path.name}: {len(rows) - len(wrong)} of {len(rows)} right")
    return len(wrong)


def is_compatible(row):
    original, update = (given_of(row, which) for which in ("original", "update"))
    try:
        has_reserved = any(f"{which}_metadata" in row for which in ("original", "update"))
        reserved = reserved_differences(update, original.schema.metadata) if has_reserved else []
        return not reserved and not incompatibilities(update, original)
    except RegistryError as error:
        return str(error)


def given_of(row, which):
    content, metadata = row[f"{which}_schema"], row.get(f"{which}_metadata")
    is_source = isinstance(content, str) and "syntax" in content
    schema = Schema(
        SchemaType.PROTOBUF if is_source else SchemaType.JSON,
        content if is_source else json.dumps(content),
        metadata=None if metadata is None else RawJson(json.dumps(metadata)),
    )
    others = ((it["name"], it["dependency"]) for it in row.get(f"{which}_dependencies", ()))
    return ResolvedSchema(schema, tuple((name, it if isinstance(it, str) else json.dumps(it)) for name, it in others))


def avro(jars, count, draw):
    """Return the number of pairs of schemas on which the registry and Avro's library for Java differ."""
    pairs = [[json.dumps(each) for each in pair] for pair in (drawn_pair(draw) for _ in range(count))]
    wrong, tried = [], dict.fromkeys(("read", "compared", "same", "compatible"), 0)
    for (reader, writer), theirs in zip(pairs, answers(jars, pairs), strict=True):
        ours = {name: refusal(text) for name, text in (("reader", reader), ("writer", writer))}
        tried["read"] += 2
        for name, text in (("reader", reader), ("writer", writer)):
            if (ours[name] is None) != (name in theirs) and not STRICTER.search(ours[name] or ""):
                wrong.append(f"{text}: {ours[name] or 'accepted here alone'}")
        if any(ours.values()) or "equal" not in theirs:
            continue
        same = avro_schema.sketch(reader) == avro_schema.sketch(writer)
        fits = not avro_schema.incompatibilities(avro_schema.parse(reader, {}), avro_schema.parse(writer, {}))
        for name, holds in (("compared", True), ("same", same), ("compatible", fits)):
            tried[name] += holds
        forms = [avro_schema.sketch(theirs[name]) for name in ("reader", "writer")]
        if (same, same and theirs["equal"]) != (forms[0] == forms[1], same) or fits is not theirs["compatible"]:
            wrong.append(f"{reader} and {writer}: {same=}, {fits=}, Java says {theirs}")
    print("\n".join(f"  {line[:300]}" for line in wrong[:20]))
    print(f"avro: {tried}, {len(wrong)} wrong")
    return len(wrong)


def refusal(text):
    try:
        avro_schema.check_new(text, {})
    except RegistryError as error:
        return str(error)
    return None


def answers(jars, pairs):
    classpath = f"{jars}/*"
    source = Path(__file__).with_name("AvroOracle.java")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-cp", classpath, "-d", folder, str(source)], check=True)
        lines = "".join(json.dumps({"reader": reader, "writer": writer}) + "\n" for reader, writer in pairs)
        command = ["java", "-cp", f"{folder}:{classpath}", "AvroOracle"]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def drawn_pair(draw):
    one = drawn_type(draw)
    return one, changed(draw, one) if draw.random() < 0.7 else drawn_type(draw)


PRIMITIVES = ("int", "long", "float", "double", "string", "bytes", "boolean", "null")
NAMES = ("A", "B", "C", "n.A", "n.B", "m.A")


def drawn_type(draw, depth=0):
    kind = draw.random()
    if kind < 0.35 or depth > 3:
        name = draw.choice(PRIMITIVES)
        return name if draw.random() < 0.7 else {"type": name, **({"x": 1} if draw.random() < 0.3 else {})}
    if kind < 0.5:
        return [drawn_type(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    if kind < 0.65:
        name, inner = draw.choice([("array", "items"), ("map", "values")])
        return {"type": name, inner: drawn_type(draw, depth + 1)}
    if kind < 0.75:
        name = draw.choice(NAMES)
        return name if draw.random() < 0.6 else {"type": name}
    return drawn_named(draw, depth)


def drawn_named(draw, depth):
    found = {"name": draw.choice(NAMES)}
    for name, values, share in (
        ("namespace", ["n", "m", "", "q.r"], 0.3),
        ("aliases", [["A"], ["B", "n.A"], ["m.Y"]], 0.2),
        ("doc", ["", "d"], 0.1),
    ):
        if draw.random() < share:
            found[name] = draw.choice(values)
    match draw.choice(["enum", "fixed", "record", "record", "error"]):
        case "enum":
            found |= {"type": "enum", "symbols": draw.sample("ABC", draw.randint(1, 3))}
        case "fixed":
            found |= {"type": "fixed", "size": draw.randint(1, 2)}
        case kind:
            found |= {"type": kind, "fields": [drawn_field(draw, name, depth) for name in "abc"[: draw.randint(0, 3)]]}
    attributes = list(found.items())
    draw.shuffle(attributes)
    return dict(attributes)


def drawn_field(draw, name, depth):
    found = {"name": name, "type": drawn_type(draw, depth + 1)}
    if draw.random() < 0.4:
        found["default"] = draw.choice([None, 0, 1.5, "", "a", "1.5", "NaN", True, [], {}, [1], {"a": 1}, "A"])
    if draw.random() < 0.2:
        found |= draw.choice([{"order": "ascending"}, {"order": "ignore"}, {"aliases": ["d"]}, {"doc": "d"}])
    return found


def changed(draw, content):
    """Return a schema with one part added, removed or replaced."""
    copy = json.loads(json.dumps(content))
    objects = []
    waiting = [copy]
    while waiting:
        each = waiting.pop()
        objects += [each] if isinstance(each, dict) else []
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else []
    it = draw.choice(objects or [{}])
    if "fields" in it:
        it["fields"].append({"name": "z", "type": "int", **draw.choice([{}, {"default": 1}])})
    elif "symbols" in it:
        it["symbols"] = draw.choice([[*it["symbols"], "Z"], it["symbols"][:-1] or ["Q"]])
    elif it.get("type") == "int":
        it["type"] = "long"
    elif "aliases" in it:
        del it["aliases"]
    return copy


if __name__ == "__main__":
    main()

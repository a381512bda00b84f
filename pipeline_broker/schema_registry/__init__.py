"""A schema registry for Avro, JSON Schema and Protobuf, with Confluent's REST API and records.

`api` finds the operation of a request, and `registration` and `matching` decide it on a `RegistryState`. The changes
are appended to the topic `_schemas` (`records`). `node/schema_registry.py` serves the registry on its port and topic.

Rules of the package:

* Error codes, paths and fields are Confluent's, because clients act on them. Texts are Confluent's where it has one.
* Confluent's registry can continue with the topic of this one, and the other way round.
* Schemas come from untrusted clients, so functions that parse or compare them run in the worker process, as `Work`.
  These functions depend on their arguments alone.
* Any client with access to the topic may write records, so all counts, sizes and times have bounds.
* Nothing is fetched: references lead to registered schemas or to built-in files.
* The libraries come with the extra `schema-registry`, and are imported with the first schema of their language.
"""

"""Kafka's wire protocol: message schemas, and codecs that are generated from them.

A message is declared once, with the version range of each field (`wire/messages`). The first use of a version generates
and compiles a Python function for it.

* No module does I/O: bytes in, messages out.
* Invalid input raises a DecodeError. A message that a version cannot carry raises an EncodeError, which is a bug of the
  caller.
* A length or count is compared with the remaining bytes before anything is read or allocated.
"""

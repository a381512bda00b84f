"""A request/response server on Trio that pipelines requests and batches their persistence.

A client sends frames (a 4-byte length and that many bytes) and receives one response to each, in the order of its
requests. Start with docs/concepts/pipeline.md; `stages.socket_server` is the server and `stages.request` its interface
to an application.

Rules of the package:

* It knows nothing about Kafka's protocol. The 4-byte length is its only assumption about the wire.
* Everything but commits, blocking work of parked requests, and TLS handshakes runs on one event loop.
* No task, lock or channel exists per request. A task waits only for a socket, for work, or for a deadline.
* Every queue and buffer has a bound, and a connection that exceeds one is muted (not read) or closed.
* An error of a request or a connection costs this connection only. A failed commit stops the server.
* Modules that only decide are sans-IO: they do not wait, and their callers pass in the time.
"""

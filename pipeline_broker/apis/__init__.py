"""Handlers of Kafka's requests, one module per API, and the dispatcher that calls them.

A handler module defines:

* `handle(call, request)`, which returns a result of `stages.request`, or a generator that returns one (see `steps`).
* `error_response(request, call, code)`, if a refusal carries more than a top-level error (see `refusals`).

Rules of the package:

* A handler requires the same ACL operation as Kafka's handler, and refuses with that API's own error. A resource that
  the client may not see is left out of lists, and is "forbidden", not "unknown", if the request names it.
* A response to a change is sent once the change is durable.
* A handler never blocks. Work that grows with the request, or with the broker's state, yields between turns. Blocking
  work is parked with `Parked` and runs in a thread.
* Codes, messages and the order of checks are Kafka's, unless docs/reference/compatibility.md says otherwise.
"""

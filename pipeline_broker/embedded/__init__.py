"""A Kafka broker inside a Python process, for tests and local programs.

`EmbeddedBroker` runs an ordinary broker on its own Trio event loop in a background thread.

Rules of the package:

* Methods of `EmbeddedBroker` can be called from any thread of the process that started it. Waiting methods have an
  `_async` form for asyncio and Trio.
* `lifecycle` passes every call to `Core` on the broker's event loop. Calls take turns there, so none sees the broker
  during a restart.
* Changes to topics and groups go through the request handlers, like those of a client, and fail with Kafka's errors.
* Errors of the caller are `EmbeddedBrokerError`; the message says what to do.
"""

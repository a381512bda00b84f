// Meanings of words (docs/reference/glossary.md) and of stages (docs/guides/dashboard.md), shown as titles.

export const WORDS = {
  "queue": "the requests that wait for a handler. Pipelined mode has several queues and routes a connection by hash(connection id) % N; the report calls each queue a shard",
  "commit": "a write and a sync of record batches, for one request or for all waiting requests",
  "mute": "to stop reading a connection, for one of the reasons in pipeline.md",
  "in flight": "received and not answered yet",
  "lane": "one connection in a drawing of requests over time",
  "log start": "the offset below which records are deleted",
  "last stable offset": "the offset below which no transaction is open; readers of committed records stop here",
  "high watermark": "the offset below which all records are durable and visible",
  "lag": "the end offset of a partition minus the committed offset of a group; unknown if the group has committed none",
  "request queue": "from: the request is received; to: a handler takes it",
  "handler": "from: a handler takes it; to: it is decided, after all steps of a request that takes several turns",
  "commit wait": "from: its entries are submitted; to: they are durable",
  "other wait": "the rest until the result is known: the return from the committer's thread, data for a fetch, members of a group, a disk",
  "order wait": "from: the result is known; to: the results of all earlier requests of the connection are known",
  "response queue": "from: the response may leave; to: sending begins",
  "send": "from: sending begins; to: the socket has taken the last byte"
};

// Meanings of words (docs/reference/glossary.md) and of stages (docs/guides/dashboard.md), shown as titles.

export const WORDS = {
  "queue": "where requests wait for a handler. Pipelined mode has several, and routes a connection by hash(channel id) % N; the report calls each a shard",
  "commit": "a write and a sync of record batches, for one request or for all waiting requests",
  "mute": "not to read a connection for a reason; the reasons are in pipeline.md",
  "in flight": "received, and not answered yet",
  "lane": "a connection in the drawings of requests over time",
  "log start": "before it records are deleted",
  "last stable offset": "up to here no transaction is open; what readers of committed records are shown",
  "high watermark": "up to here records are durable, and shown",
  "lag": "the end of a partition minus the offset that a group has committed; not known where it has committed none",
  "request queue": "from: the request is received; to: a handler takes it",
  "handler": "from: a handler takes it; to: it is decided, after all steps of a request that takes several turns",
  "commit wait": "from: its entries are submitted; to: they are durable",
  "other wait": "the rest until the result is known: the return from the committer's thread, data for a fetch, members of a group, a disk",
  "order wait": "from: the result is known; to: the results of all earlier requests of the connection are known",
  "response queue": "from: the response may leave; to: sending begins",
  "send": "from: sending begins; to: the socket has taken the last byte"
};

// What words mean, as docs/glossary.md has it, and what stages are, as docs/dashboard.md has it: shown as titles.

export const WORDS = {
  "queue": "where requests wait for a handler. Pipelined mode has several, and routes a connection by hash(channel id) % N; the report calls each a shard",
  "commit": "what is written and synced in one go, for one request or for all that wait",
  "mute": "not to read a connection for a reason; the reasons are in pipeline.md",
  "in flight": "received, and not answered yet",
  "lane": "a connection in the drawings of requests over time",
  "log start": "before it records are deleted",
  "last stable offset": "up to here no transaction is open; what readers of committed records are shown",
  "high watermark": "up to here records are durable, and shown",
  "lag": "the end of a partition minus the offset that a group has committed; not known where it has committed none",
  "request queue": "from: the request is received; to: a handler takes it",
  "handler": "from: a handler takes it; to: it is decided; with callbacks and the steps of a request that takes several turns",
  "commit wait": "from: its entries are handed over; to: they are durable",
  "other wait": "the rest until the answer is there: the way back from the committer's thread, data for a fetch, members of a group, a disk",
  "order wait": "from: the answer is there; to: the answers to earlier requests of the connection are, too",
  "response queue": "from: the answer may leave; to: it begins to",
  "send": "from: it begins to leave; to: the socket took the last byte"
};

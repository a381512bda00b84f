"""The archive: per-partition segment files with Kafka's indexes, and the manifest that says which of them count.

`local` keeps the archive in a directory, and `objects` in an object store. Both implement the same two interfaces,
`SegmentStore` and `ManifestLog`.

Rules:

* Only the manifest decides which bytes count. A file that it does not name, and bytes after the size that it records,
  are leftovers of an interrupted writer. So a writer may be killed at any point.
* One thread at a time writes: archiving, retention and deletion. Compaction writes its own new files in a second
  thread.
* A manifest edit is committed only after the files it names are durable, and is shown to logs only after its commit.
* No batch is served without verification of its checksum, offsets and leader epoch.
* Reads without waiting (`read_cached`) belong on the event loop; everything else that reads or writes files in a
  thread.
"""

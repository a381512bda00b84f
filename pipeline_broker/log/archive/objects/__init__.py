"""The archive in an object store.

Bulk objects hold the bytes of many files each. A fenced log holds the file map and the manifest:

* `files/<node>/` is the log. Each slot has a change of the file map, an edit of the manifest, or a snapshot of both.
* `bulk/<node>/<generation>-...` are the bulk objects. One that the log does not name does not count.

Rules:

* A slot counts as a whole or not at all. A process that was replaced by a successor gets FencedError and can commit
  nothing.
* A bulk object's name is never reused. An object is deleted only after a commit no longer names it.
* Commits wait for the store without limit: one that was given up might still be stored later. Reads, listings and
  uploads are given up soon and raise Obstacle, because they can be repeated.
"""

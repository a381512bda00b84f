"""Which records of a compacted log stay: decisions and rebuilt batches, no files."""

"""One journal shared by all partitions, and partition logs that are indexes over it; knows records, not wire."""

"""Request traces of a broker: their tables, the ring that collects rows, the PBTRACE1 file format and OTLP export.

Rules of this package:
* Each table is declared once. Writers and readers derive their layout from that declaration.
* The only I/O reads or writes a whole file.
* Only `broker_tables` and `request_rows` know the requests of `stages`; the other modules know nothing of a broker.
"""

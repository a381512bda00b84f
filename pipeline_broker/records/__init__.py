"""Record batch format v2: headers, records, checks and compression; knows no messages."""

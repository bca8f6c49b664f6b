"""Owns: what a row of the database of records has, next to the id that each kind of database counts in its own way."""

COLUMNS = """
    test_id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    scenario TEXT NOT NULL,
    target TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    revision TEXT NOT NULL,
    environment TEXT NOT NULL,
    status TEXT NOT NULL,
    json TEXT NOT NULL
"""

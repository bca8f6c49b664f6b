"""Frozen dataclasses with a schema version; the database; nothing that measures."""

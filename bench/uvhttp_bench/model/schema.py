"""Owns: the JSON Schema of a record, made from the dataclasses: docs/performance/record.schema.json is what it prints."""

import dataclasses
import json
import types
import typing
from typing import Any

from uvhttp_bench.model.record import SCHEMA_VERSION, Record

NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def of(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (known,) = (of(argument) for argument in arguments if argument is not type(None))
        return {**known, "type": [known["type"], "null"]}
    if origin is tuple:
        return {"type": "array", "items": of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": of(arguments[1])}
    if dataclasses.is_dataclass(hint):
        hints, fields = typing.get_type_hints(hint), dataclasses.fields(hint)
        required = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
        made: dict[str, Any] = {"type": "object", "properties": {f.name: of(hints[f.name]) for f in fields}}
        return {**made, "required": required} if required else made
    return {"type": NAMES[hint]}


def text() -> str:
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The record of one run of uvhttp-bench, version {SCHEMA_VERSION}",
    }
    return json.dumps({**head, **of(Record)}, indent=1) + "\n"


if __name__ == "__main__":
    print(text(), end="")

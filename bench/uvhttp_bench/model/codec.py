"""Owns: frozen dataclasses to JSON and back, checked against their type hints, and files that are complete or not there."""

import dataclasses
import functools
import json
import os
import re
import tempfile
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class FormatError(ValueError):
    """A JSON text that is not what the model says; names the field."""


def to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def from_json(kind: type[T], value: Any, where: str = "") -> T:
    """A field that a newer program has added is passed over; one that is missing has to have a default."""
    if not isinstance(value, dict):
        raise FormatError(f"{where or 'record'}: expected an object")
    hints = _hints(kind)  # type: ignore[arg-type]
    given = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        place = f"{where}.{field.name}" if where else field.name
        if field.name in value:
            given[field.name] = _convert(hints[field.name], value[field.name], place)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise FormatError(f"{place}: missing")
    return kind(**given)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (hint,) = (argument for argument in arguments if argument is not type(None))
        return _convert(hint, value, where)
    if hint is Any:
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise FormatError(f"{where}: expected a list")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            if arguments[0] in (int, str) and all(type(item) is arguments[0] for item in value):
                return tuple(value)  # histograms: a million numbers
            return tuple(_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(value) != len(arguments):
            raise FormatError(f"{where}: expected {len(arguments)} values")
        return tuple(_convert(h, item, f"{where}[{i}]") for i, (h, item) in enumerate(zip(arguments, value, strict=True)))
    if origin is dict:
        if not isinstance(value, dict):
            raise FormatError(f"{where}: expected an object")
        return {key: _convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value, where)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise FormatError(f"{where}: expected {hint.__name__}, not {value!r}")
    return value


def write_text(path: Path, text: str) -> None:
    """The file is there with all of the text, or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).rename(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# A text comes first, so that what looks like a list in it stays as it is.
_TEXT_OR_NUMBERS = re.compile(r'"(?:[^"\\]|\\.)*"|\[[\d\s,.]+\]')


def _narrow(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else re.sub(r"\s+", "", found[0])


def dump(value: Any) -> str:
    """Indented, but lists of numbers (histograms) on one line."""
    text = json.dumps(to_json(value), indent=1, ensure_ascii=False, allow_nan=False)
    return _TEXT_OR_NUMBERS.sub(_narrow, text) + "\n"

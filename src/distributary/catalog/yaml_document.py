"""YAML files that people write: read without surprises.

Only plain data is read: no tags that make objects, no aliases (a few lines of them can stand for gigabytes),
no key twice in a mapping, at most one megabyte, at most 32 levels. Errors name the line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from distributary.catalog.errors import ShareFileError

LARGEST_FILE: Final = 1 << 20
DEEPEST: Final = 32


class _PlainLoader(yaml.SafeLoader):
    """YAML's safe subset, without aliases and doubled keys."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias before it is followed, and nesting that nobody writes by hand."""
        if self.check_event(yaml.events.AliasEvent):
            raise ComposerError(None, None, "aliases are not read", self.peek_event().start_mark)
        self.depth += 1
        if self.depth > DEEPEST:
            raise ComposerError(None, None, "it is nested too deep", self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key that comes twice, where YAML would take the last."""
        seen: set[str] = set()
        for key, _ in node.value:
            text = str(key.value)
            if text in seen:
                raise ConstructorError(None, None, f"{text!r} comes twice", key.start_mark)
            seen.add(text)
        return super().construct_mapping(node, deep=deep)


def read_yaml_file(path: Path) -> dict[str, Any]:
    """Read a file whose document is a mapping; an empty file is an empty mapping."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ShareFileError(f"{path} cannot be read: {error.strerror}") from error
    return read_yaml(content, str(path))


def read_yaml(content: bytes | str, name: str) -> dict[str, Any]:
    """Read a document that is a mapping from texts."""
    if len(content) > LARGEST_FILE:
        raise ShareFileError(
            f"{name} has more than {LARGEST_FILE} bytes, which is too much for a file of settings"
        )
    try:
        document = yaml.load(content, Loader=_PlainLoader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ShareFileError(f"{name} is not YAML as it is read here: {_where(error)}") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(
        isinstance(key, str) for key in cast("dict[Any, Any]", document)
    ):
        raise ShareFileError(f"{name} must be a mapping: lines of the form `key: value`")
    return cast("dict[str, Any]", document)


def write_yaml(document: Any) -> str:
    """Write plain data as YAML, keys in their order."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be read"
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)

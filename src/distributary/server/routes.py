"""Routes: which path and method leads to which endpoint.

A route is a row of data; the OpenAPI description is made from the same rows. Paths match by whole decoded
segments. A path that exists for other methods only is 405 with `Allow`, any other is 404. HEAD is answered
wherever GET is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from distributary.server.error_responses import MethodNotAllowedError
from distributary.server.request import path_segments
from distributary.sharing.error_response import ResourceNotFoundError

if TYPE_CHECKING:
    from distributary.catalog.recipients import Recipient
    from distributary.server.answers import Answer, StreamedAnswer
    from distributary.server.request import Request
    from distributary.server.service import Service

    Endpoint = Callable[[Service, "Call"], Awaitable[Answer | StreamedAnswer]]

Handler = TypeVar("Handler")


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request at its route; `names` are the decoded parts of the path."""

    request: Request
    recipient: Recipient
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Route(Generic[Handler]):
    """A method and a path template such as `/shares/{share}`, with what answers them."""

    name: str
    method: str
    template: str
    handler: Handler


@dataclass(frozen=True, slots=True)
class Match(Generic[Handler]):
    """A route that was found for a request."""

    route: Route[Handler]
    names: Mapping[str, str]


class Router(Generic[Handler]):
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route[Handler]]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route[Handler]]]] = {}
        for route in routes:
            parts = tuple(route.template.split("/")[1:])
            self._by_length.setdefault(len(parts), []).append((parts, route))

    def match(self, method: str, path: str) -> Match[Handler]:
        """The route for a method and an undecoded path, or the error that says why there is none."""
        segments = path_segments(path)
        found: dict[str, Match[Handler]] = {}
        for parts, route in self._by_length.get(len(segments), ()):
            names = _names(parts, segments)
            if names is not None:
                found.setdefault(route.method, Match(route, names))
        if method in found:
            return found[method]
        if method == "HEAD" and "GET" in found:
            return found["GET"]
        if not found:
            raise ResourceNotFoundError("There is nothing at this path.")
        allowed = {*found, *(["HEAD"] if "GET" in found else [])}
        raise MethodNotAllowedError(tuple(sorted(allowed)))


def _names(parts: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            names[part[1:-1]] = segment
        elif part != segment:
            return None
    return names

"""Metrics of the server, and the ids by which requests are found in its log.

Names follow OpenTelemetry's where it has one. Labels hold route names, methods, statuses and outcomes:
nothing that a client can choose freely, so their number is bounded. With several workers the values lie
in files of one directory (PROMETHEUS_MULTIPROC_DIR, set by the runner), from which the admin listener
adds them up.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
import secrets
import threading
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

METRICS_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_ID_HEADER: Final = "x-request-id"
_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

DURATION: Final = Histogram(
    "http_server_request_duration_seconds",
    "Time from the request's headers to the last byte of the answer.",
    ["route", "method", "status"],
    buckets=_BUCKETS,
)
ACTIVE: Final = Gauge(
    "http_server_active_requests", "Requests that are being answered.", multiprocess_mode="livesum"
)
SENT_BYTES: Final = Counter("http_server_response_body_bytes_total", "Bytes of bodies sent.", ["route"])
QUERIES: Final = Counter(
    "sharing_queries_total", "Answers about tables, by kind and outcome.", ["kind", "outcome"]
)
LOCAL_BYTES: Final = Counter("sharing_local_bytes_served_total", "Bytes of data files sent by ticket.")
AUTH_FAILURES: Final = Counter(
    "sharing_auth_failures_total", "Requests without a valid token or ticket.", ["reason"]
)
RATE_LIMITED: Final = Counter("sharing_rate_limited_total", "Requests refused because of a limit.")
CUT_STREAMS: Final = Counter(
    "sharing_streams_cut_total", "Answers that ended before their last byte.", ["reason"]
)
AUDIT_WAITING: Final = Gauge(
    "sharing_audit_events_waiting", "Reads not yet in the audit log.", multiprocess_mode="livesum"
)


class _Counts:
    """Requests of one kind so far: how many in each bucket, their seconds and bytes."""

    __slots__ = ("buckets", "seconds", "sent")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BUCKETS) + 1)
        self.seconds = 0.0
        self.sent = 0


RequestKind = tuple[str, str, int]
_counted: dict[RequestKind, _Counts] = {}
_written: dict[RequestKind, _Counts] = {}
_running = [0, 0]
_writing = threading.Lock()


def request_began() -> None:
    """Count a request that is being answered."""
    _running[0] += 1


def observe_request(route: str, method: str, status: int, seconds: float, sent: int) -> None:
    """Count a request that has ended.

    Counted are plain numbers; `write_counts` adds them to the metrics a few times a second, since writing
    each request into the files of the metrics costs more than answering the simplest ones. To be called on
    the event loop only.
    """
    _running[1] += 1
    key = (route, method, status)
    counts = _counted.get(key)
    if counts is None:
        counts = _counted[key] = _Counts()
    counts.buckets[bisect.bisect_left(_BUCKETS, seconds)] += 1
    counts.seconds += seconds
    counts.sent += sent


def write_counts() -> None:
    """Add what was counted since the last time to the metrics."""
    with _writing:
        ACTIVE.set(max(_running[0] - _running[1], 0))
        for kind, counts in [*_counted.items()]:
            _add(kind, counts, _written.setdefault(kind, _Counts()))


def _add(kind: RequestKind, counts: _Counts, written: _Counts) -> None:
    if counts.seconds == written.seconds:
        return  # no request of this kind since
    route, method, status = kind
    histogram: Any = DURATION.labels(route, method, str(status))
    # What Histogram.observe does for one request, for all of them at once.
    for place, count in enumerate(counts.buckets):
        if count > written.buckets[place]:
            histogram._buckets[place].inc(count - written.buckets[place])
            written.buckets[place] = count
    seconds, sent = counts.seconds, counts.sent
    histogram._sum.inc(seconds - written.seconds)
    if sent > written.sent:
        SENT_BYTES.labels(route).inc(sent - written.sent)
        if route == "file":
            LOCAL_BYTES.inc(sent - written.sent)
    written.seconds, written.sent = seconds, sent


class RequestIds:
    """Gives every request an id of its own: the client's where it sent a sound one."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count()

    def id_for(self, given: str | None) -> str:
        """The id of a request."""
        if given is not None and _GIVEN_ID.fullmatch(given):
            return given
        return f"{self._prefix}-{next(self._numbers):06x}"


def metrics_text() -> bytes:
    """All metrics in Prometheus' text format, of every worker where there are several."""
    write_counts()
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)

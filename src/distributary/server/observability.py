"""Metrics of the server, and the ids by which requests are found in its log.

Names follow OpenTelemetry's where it has one. Labels hold route names, methods, statuses and outcomes:
nothing that a client can choose freely, so their number is bounded. With several workers the values lie
in files of one directory (PROMETHEUS_MULTIPROC_DIR, set by the runner), from which the admin listener
adds them up.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from typing import Final

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


_durations: dict[tuple[str, str, int], Histogram] = {}
_bytes: dict[str, Counter] = {}


def observe_request(route: str, method: str, status: int, seconds: float, sent: int) -> None:
    """Count one request; the counters of each kind are looked up once."""
    key = (route, method, status)
    duration = _durations.get(key)
    if duration is None:
        duration = _durations[key] = DURATION.labels(route, method, str(status))
    duration.observe(seconds)
    if sent:
        total = _bytes.get(route)
        if total is None:
            total = _bytes[route] = SENT_BYTES.labels(route)
        total.inc(sent)
        if route == "file":
            LOCAL_BYTES.inc(sent)


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
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)

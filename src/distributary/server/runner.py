"""The server's processes: granian with its workers for recipients, and one more for the admin listener.

The parent brings the catalog up to date before any worker starts, and answers no request itself. Workers are
started afresh (never forked, since stores and Arrow keep threads) and replaced when they die; when the
parent dies they end too. On SIGTERM or SIGINT no new connection is taken and running answers get
`drain_seconds` to finish.

Without TLS the server listens on loopback only, unless `allow_plain_http` says that a proxy in front has it.
"""

from __future__ import annotations

import ipaddress
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import msgspec
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from distributary.catalog.administration import initialise
from distributary.catalog.database import Database
from distributary.errors import InvalidInputError
from distributary.server.key_ring import KeyRing
from distributary.server.rate_limits import call_rates
from distributary.server.settings import Settings

HEADER_SECONDS: Final = 15
_HEADER_BUFFER: Final = 64 * 1024
_METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"

_LOGGING: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": {"()": "distributary.server.event_log.JsonLines"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}
    },
    "loggers": {"_granian": {"handlers": ["stderr"], "level": "WARNING", "propagate": False}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}


def prepared(settings: Settings) -> Settings:
    """The settings with which the server can start: free ports chosen, dangers refused."""
    _refuse_plain_http(settings)
    return msgspec.structs.replace(
        settings,
        port=settings.port or _free_port(settings.host),
        admin_port=settings.admin_port or _free_port(settings.admin_host),
    )


def serve(settings: Settings, *, on_start: Callable[[], None] = lambda: None) -> None:
    """Run the server until it is told to stop; `on_start` is called when its ports are open."""
    with_catalog(settings)
    multiprocessing.set_start_method("spawn", force=True)
    call_rates(settings).unlink(missing_ok=True)
    metrics = tempfile.mkdtemp(prefix="distributary-metrics-")
    os.environ[_METRICS_VARIABLE] = metrics
    admin = multiprocessing.Process(target=_run_admin, args=(settings,), name="distributary-admin")
    server = _public_server(settings)
    server.on_startup(on_start)
    admin.start()
    try:
        server.serve(target_loader=partial(_public_app, settings), wrap_loader=False)
    finally:
        _end(admin)
        shutil.rmtree(metrics, ignore_errors=True)


def with_catalog(settings: Settings) -> None:
    """Bring the catalog up to date, under its lock."""
    database = Database(settings.database)
    try:
        initialise(database, KeyRing(settings.key_path), actor="server")
    finally:
        database.close()


def _public_server(settings: Settings) -> Any:
    tls = settings.tls
    return Server(
        "distributary",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=settings.workers,
        http=HTTPModes.auto if tls.certificate else HTTPModes.http1,
        http1_settings=_http1(),
        websockets=False,
        backlog=4096,
        backpressure=4096,
        log_level=LogLevels.warning,
        log_dictconfig=_LOGGING,
        ssl_cert=Path(tls.certificate) if tls.certificate else None,
        ssl_key=Path(tls.key) if tls.key else None,
        ssl_key_password=_password(tls.key_password_file),
        ssl_protocol_min=SSLProtocols.tls12,
        respawn_failed_workers=True,
        respawn_interval=0.5,
        workers_kill_timeout=max(1, int(settings.drain_seconds)),
    )


def _run_admin(settings: Settings) -> None:
    """The process of the admin listener."""
    watch_parent()
    server = Server(
        "distributary",
        address=settings.admin_host,
        port=settings.admin_port,
        interface=Interfaces.ASGI,
        workers=1,
        http=HTTPModes.http1,
        http1_settings=_http1(),
        websockets=False,
        log_level=LogLevels.warning,
        log_dictconfig=_LOGGING,
        respawn_failed_workers=True,
        workers_kill_timeout=5,
    )
    server.serve(target_loader=partial(_admin_app, settings), wrap_loader=False)


def _http1() -> HTTP1Settings:
    return HTTP1Settings(header_read_timeout=HEADER_SECONDS * 1000, max_buffer_size=_HEADER_BUFFER)


def _public_app(settings: Settings) -> Any:
    """Made in each worker."""
    from distributary.server.app import SharingApp  # noqa: PLC0415  # the parent needs none of it
    from distributary.server.service import Service  # noqa: PLC0415

    watch_parent()
    # Threads that work on queries give way to the event loop sooner than Python's default.
    sys.setswitchinterval(0.0005)
    return SharingApp(Service(settings))


def _admin_app(settings: Settings) -> Any:
    from distributary.server.admin_app import AdminApp  # noqa: PLC0415  # the parent needs none of it

    watch_parent()
    return AdminApp(settings)


def watch_parent() -> None:
    """End this process when its parent is gone: an orphan would keep the port."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _end(process: BaseProcess) -> None:
    process.terminate()
    process.join(10)
    if process.is_alive():
        process.kill()
        process.join()


def _refuse_plain_http(settings: Settings) -> None:
    if (settings.tls.certificate is None) != (settings.tls.key is None):
        raise InvalidInputError("TLS needs both files: tls.certificate and tls.key")
    if settings.allow_plain_http:
        return
    open_to_all = [] if settings.tls.certificate else [settings.host]
    for host in (*open_to_all, settings.admin_host):
        if not _is_loopback(host):
            raise InvalidInputError(
                f"without TLS the server listens on loopback only, not on {host}: give --tls-cert and "
                "--tls-key, or --allow-plain-http when a proxy in front of it has TLS"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def _password(file: str | None) -> str | None:
    return None if file is None else Path(file).read_text().rstrip("\n")

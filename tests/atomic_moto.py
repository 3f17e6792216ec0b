"""moto as an S3 server that serves one request after the other: `python tests/atomic_moto.py PORT`.

moto looks whether an object exists and then stores it, which is not one step when two threads do it: in one
of some hundred races two writers were told that they had created the same object. A real store does it in
one step, and with this lock so does moto.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_one_at_a_time = threading.Lock()
_moto = DomainDispatcherApplication(create_backend_app)


def application(environment: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    with _one_at_a_time:
        return [b"".join(_moto(environment, start_response))]


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)

"""plain_sendfile.py PORT FOLDER: serve files by `os.sendfile` and nothing else, to compare tickets with."""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(sys.argv[2])


class SendFile(BaseHTTPRequestHandler):
    """Answers GET with the whole file."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send one file."""
        try:
            file = (ROOT / self.path.lstrip("/")).open("rb")
        except OSError:
            self.send_error(404)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.flush()
            sent = 0
            while sent < size:
                sent += os.sendfile(self.connection.fileno(), file.fileno(), sent, size - sent)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), SendFile).serve_forever()

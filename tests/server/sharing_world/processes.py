"""What the processes of a server hold, and connections that behave badly."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

from sharing_world.running import RunningServer, table_path

WIDE = f"{table_path('Sales.us.wide')}/query"


def tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


def resident(server: RunningServer) -> int:
    """Bytes of memory of all processes of the server."""
    total = 0
    for pid in tree(server.process.pid):
        match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        total += int(match[1]) * 1024 if match else 0
    return total


def descriptors(server: RunningServer) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in tree(server.process.pid))


def opened(server: RunningServer, path: str = WIDE, body: bytes = b"{}") -> socket.socket:
    """A connection that has sent a query and reads nothing yet."""
    host, port = server.base.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    token = server.contents.tokens["acme"]
    connection.sendall(
        f"POST /delta-sharing{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return connection


def active(server: RunningServer) -> float:
    text = server.request("GET", f"{server.admin}/metrics", token=None).text
    match = re.search(r"^http_server_active_requests ([0-9.e+-]+)", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


def until(condition, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False

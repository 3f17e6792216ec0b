"""Requests to a server: one after the other with a clock, and many at once.

One after the other on a kept connection: the first is told apart, then p50, p99, first byte and the server's
CPU time. Many at once by `wrk` where it is installed, else by threads, which say less since they take a core
themselves.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from served_lake import Served

PIECE = 1 << 20


@dataclass(frozen=True)
class Request:
    """What is asked."""

    method: str
    path: str
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What came back, and when."""

    status: int
    first_byte: float
    seconds: float
    size: int
    lines: int


def connection(server: Served) -> HTTPConnection:
    """A connection to a server on loopback."""
    return HTTPConnection("127.0.0.1", server.port, timeout=900)


def ask(open_connection: HTTPConnection, request: Request) -> Reply:
    """Send one request and read its answer to the end."""
    start = time.perf_counter()
    open_connection.request(request.method, request.path, request.body, dict(request.headers))
    response = open_connection.getresponse()
    piece = response.read(1)
    first_byte = time.perf_counter() - start
    size = lines = 0
    while piece:
        size += len(piece)
        lines += piece.count(b"\n")
        piece = response.read(PIECE)
    return Reply(response.status, first_byte, time.perf_counter() - start, size, lines)


@dataclass(frozen=True)
class Effort:
    """How long a case is measured: seconds, and how many requests at least and at most."""

    seconds: float
    least: int = 3
    most: int = 500


def in_turn(server: Served, request: Request, effort: Effort) -> dict[str, float]:
    """Figures of requests one after the other, times in milliseconds."""
    line = connection(server)
    first = ask(line, request)
    if first.status != 200:
        raise RuntimeError(f"{request.path} was answered with {first.status}")
    _repeat(lambda: ask(line, request), Effort(effort.seconds / 3, 0, effort.most // 2))
    cpu = server.cpu_seconds()
    replies = _repeat(lambda: ask(line, request), effort)
    cpu = server.cpu_seconds() - cpu
    line.close()
    whole, begun = [reply.seconds for reply in replies], [reply.first_byte for reply in replies]
    return {
        "first_total_ms": first.seconds * 1e3,
        "cpu_ms_per_req": cpu * 1e3 / len(replies),
        "p50_ms": percentile(whole, 50) * 1e3,
        "p99_ms": percentile(whole, 99) * 1e3,
        "ttfb_p50_ms": percentile(begun, 50) * 1e3,
        "bytes": first.size,
        "lines": first.lines,
        "n": len(replies),
    }


def _repeat(work: Callable[[], Reply], effort: Effort) -> list[Reply]:
    found: list[Reply] = []
    end = time.perf_counter() + effort.seconds
    while len(found) < effort.least or (time.perf_counter() < end and len(found) < effort.most):
        found.append(work())
    return found


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many percent lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def at_once(server: Served, request: Request, connections: int, seconds: float) -> float:
    """Requests a second over so many connections."""
    if shutil.which("wrk"):
        return _by_wrk(server, request, connections, seconds)
    counts = [0] * connections
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        line = connection(server)
        while time.perf_counter() < end:
            counts[number] += ask(line, request).status == 200
        line.close()

    in_threads(connections, work)
    return sum(counts) / seconds


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do the work in threads, each with its number."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _by_wrk(server: Served, request: Request, connections: int, seconds: float) -> float:
    lines = [f"wrk.method={json.dumps(request.method)}"]
    lines += [f"wrk.body=[==[{request.body}]==]"] if request.body else []
    lines += [f"wrk.headers[{json.dumps(key)}]={json.dumps(value)}" for key, value in request.headers.items()]
    with TemporaryDirectory() as folder:
        script = Path(folder) / "request.lua"
        script.write_text("\n".join(lines))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "--timeout", "60s",
                   "-s", str(script), f"http://127.0.0.1:{server.port}{request.path}"]  # fmt: skip
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if re.search(r"Non-2xx", told):
        raise RuntimeError(f"{request.path} was refused while {connections} asked at once")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", told)
    assert rate is not None
    return float(rate[1])


def beside_others(
    server: Served, quick: Request, heavy: Request, clients: int, seconds: float
) -> dict[str, float]:
    """How long `quick` takes while other clients, in a process of their own, ask `heavy` again and again."""
    others = [server.port, seconds, clients, heavy.method, heavy.path, heavy.body, dict(heavy.headers)]
    child = subprocess.Popen(
        [sys.executable, __file__, json.dumps(others)], stdout=subprocess.PIPE, text=True
    )
    taken: list[float] = []
    while child.poll() is None:
        line = connection(server)
        taken.append(ask(line, quick).seconds * 1e3)
        line.close()
        time.sleep(0.02)
    heavy_ms = json.loads(child.communicate()[0])
    return {
        "heavy": len(heavy_ms),
        "heavy_p50_ms": percentile(heavy_ms, 50),
        "n": len(taken),
        "p50_ms": percentile(taken, 50),
        "p99_ms": percentile(taken, 99),
        "max_ms": max(taken),
    }


def download(server: Served, path: str, clients: int, times: int) -> dict[str, float]:
    """Megabytes a second of so many clients who each take a file so many times, and the server's CPU time."""
    sizes = [0] * clients
    ask(connection(server), Request("GET", path))
    buffer_of = [bytearray(PIECE) for _ in range(clients)]

    def work(number: int) -> None:
        line = connection(server)
        for _ in range(times):
            line.request("GET", path)
            response = line.getresponse()
            assert response.status == 200, response.status
            while taken := response.readinto(buffer_of[number]):
                sizes[number] += taken
        line.close()

    cpu, start = server.cpu_seconds(), time.perf_counter()
    in_threads(clients, work)
    seconds = time.perf_counter() - start
    size = sum(sizes)
    return {"mb_per_s": size / seconds / 1e6, "cpu_s_per_gb": (server.cpu_seconds() - cpu) * 1e9 / size}


def _main() -> None:
    port, seconds, clients, method, path, body, headers = json.loads(sys.argv[1])
    server, request = Served(port, 0), Request(method, path, body, headers)
    end, taken = time.perf_counter() + seconds, []

    def work(_: int) -> None:
        while True:
            taken.append(ask(connection(server), request).seconds * 1e3)
            if time.perf_counter() > end:
                return

    in_threads(clients, work)
    print(json.dumps(taken))


if __name__ == "__main__":
    _main()

"""A sharing server on loopback that does what a test says, and remembers every request.

It serves real Delta tables with the lines of either format, written here by hand rather than by the
server's code, so that the client is tested against the protocol and not against ourselves. Tests add what
goes wrong: `script` may take over any request.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from distributary.delta.table import DeltaTable

TOKEN = "canary-token-7f3a"
SIGNATURE = "canary-signature-91bc"


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: bytes
    port: int = 0

    @property
    def json(self) -> dict:
        return json.loads(self.body or b"{}")


@dataclass
class Reply:
    """What is answered; `cut` bytes of the body are sent, then the connection is closed."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    framing: str = "length"
    pause: float = 0.0


Script = Callable[[Asked], Reply | None]


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


class ScriptedServer:
    """Serves tables below a folder as share ``s``, schema ``c``."""

    def __init__(self, folder: Path, format: str = "parquet") -> None:
        self.folder = folder
        self.format = format
        self.asked: list[Asked] = []
        self.script: Script = lambda asked: None
        self.life: float = 3600.0
        self.page_files: int | None = None
        self.refresh_tokens = False
        self.end_line = True
        self.numbers = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body leave together.
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                outer._handle(self)

            do_GET = do_POST = do_HEAD = handle_any  # noqa: N815

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, address: object) -> None:
                """Clients go away; that is what they do."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def profile(self) -> dict:
        return {"shareCredentialsVersion": 1, "endpoint": f"{self.origin}/api/", "bearerToken": TOKEN}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked_for(self, ending: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.endswith(ending)]

    @property
    def downloads(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.startswith("/files/")]

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        length = int(handler.headers.get("Content-Length") or 0)
        asked = Asked(
            handler.command,
            parts.path,
            dict(parse_qsl(parts.query)),
            {name.lower(): value for name, value in handler.headers.items()},
            handler.rfile.read(length),
            handler.client_address[1],
        )
        self.asked.append(asked)
        reply = self.script(asked) or self.answer(asked)
        self._send(handler, reply)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        body = reply.body if reply.cut is None else reply.body[: reply.cut]
        if reply.framing == "length":
            handler.send_header("Content-Length", str(len(reply.body)))
        elif reply.framing == "chunked":
            handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if reply.framing == "chunked":
            for start in range(0, len(body), 512):
                part = body[start : start + 512]
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self._rest(handler, reply)
            if reply.cut is None:
                handler.wfile.write(b"0\r\n\r\n")
        elif handler.command != "HEAD":
            for start in range(0, len(body), 512) if reply.pause else (0,):
                handler.wfile.write(body[start : start + 512] if reply.pause else body)
                self._rest(handler, reply)
        if reply.cut is not None or reply.framing == "closing":
            handler.close_connection = True

    @staticmethod
    def _rest(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.pause:
            handler.wfile.flush()
            time.sleep(reply.pause)

    def answer(self, asked: Asked) -> Reply:
        """What a well-behaved server answers."""
        if asked.path.startswith("/files/"):
            return self.file(asked)
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(401, lines({"errorCode": "UNAUTHENTICATED", "message": "no"}))
        parts = asked.path.removeprefix("/api/").split("/")
        if parts == ["shares"]:
            return Reply(body=lines({"items": [{"name": "s"}]}))
        if len(parts) == 3:
            return Reply(body=lines({"items": [{"name": "c", "share": "s"}]}))
        table = DeltaTable(self.folder / unquote(parts[5]))
        match parts[6]:
            case "version":
                return Reply(headers={"Delta-Table-Version": str(table.snapshot().version)})
            case "metadata":
                return self.table_reply(table.snapshot().version, self.head_lines(table, None))
            case "query":
                return self.query(table, asked.json)
            case "changes":
                return self.changes(table, asked.parameters)
        return Reply(404, lines({"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "nothing here"}))

    def all_tables(self) -> Reply:
        """Every table of the folder."""
        found = [root.parent.name for root in sorted(self.folder.glob("*/_delta_log"))]
        return Reply(body=lines({"items": [{"name": name, "schema": "c", "share": "s"} for name in found]}))

    def table_reply(self, version: int, body: list[dict], end: dict | None = None) -> Reply:
        capabilities = f"responseformat={self.format}"
        if self.end_line:
            capabilities += ";includeendstreamaction=true"
            body = [*body, {"endStreamAction": end or {}}]
        headers = {"Delta-Table-Version": str(version), "Delta-Sharing-Capabilities": capabilities}
        return Reply(body=lines(*body), headers=headers, framing="chunked")

    def query(self, table: DeltaTable, body: dict) -> Reply:
        version = body.get("version")
        if "refreshToken" in body:
            version = int(body["refreshToken"].rpartition("-")[2])
        snapshot = table.snapshot(version)
        files = sorted(snapshot.state.files.adds(), key=lambda add: add.path)
        start = int(body.get("pageToken", "0"))
        stop = start + (self.page_files or len(files))
        end: dict = {}
        if stop < len(files):
            end["nextPageToken"] = str(stop)
        if self.refresh_tokens and body.get("includeRefreshToken"):
            end["refreshToken"] = f"fresh-{snapshot.version}"
        made = [self.file_line(table, add) for add in files[start:stop]]
        return self.table_reply(snapshot.version, [*self.head_lines(table, snapshot.version), *made], end)

    def head_lines(self, table: DeltaTable, version: int | None) -> list[dict]:
        snapshot = table.snapshot(version)
        found = snapshot.metadata
        if self.format == "delta":
            protocol = {"minReaderVersion": snapshot.protocol.min_reader_version}
            protocol["minWriterVersion"] = snapshot.protocol.min_writer_version
            for name in ("reader", "writer"):
                if features := getattr(snapshot.protocol, f"{name}_features"):
                    protocol[f"{name}Features"] = list(features)
            metadata = {
                "id": found.id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": found.schema_string,
                "partitionColumns": list(found.partitioning),
                "configuration": found.properties,
            }
            return [{"protocol": {"deltaProtocol": protocol}}, {"metaData": {"deltaMetadata": metadata}}]
        metadata = {
            "id": found.id,
            "format": {"provider": "parquet"},
            "schemaString": found.schema_string,
            "partitionColumns": list(found.partitioning),
        }
        return [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}]

    def url(self, table: DeltaTable, path: str) -> tuple[str, int]:
        self.numbers += 1
        expires = int((time.time() + self.life) * 1000)
        place = f"{Path(str(table.store.root).removeprefix('file://')).name}/{path}"
        return f"{self.origin}/files/{quote(place, safe='/%=')}?sig={SIGNATURE}&exp={expires}", expires

    def file_line(self, table: DeltaTable, add, kind: str = "file", version=None, timestamp=None) -> dict:
        url, expires = self.url(table, add.path)
        id = hashlib.md5(add.path.encode()).hexdigest()
        told: dict = {} if version is None else {"version": version, "timestamp": timestamp}
        if self.format == "parquet":
            values = {name: text or "" for name, text in (add.partition_values or {}).items()}
            line = {"url": url, "id": id, "partitionValues": values, "size": add.size, **told}
            if getattr(add, "stats", None):
                line["stats"] = add.stats
            return {kind: {**line, "expirationTimestamp": expires}}
        action: dict = {
            "path": url,
            "partitionValues": add.partition_values or {},
            "size": add.size,
            "dataChange": True,
            "modificationTime": 1,
        }
        if kind == "cdf":
            kind = "cdc"
        if getattr(add, "stats", None):
            action["stats"] = add.stats
        vector = getattr(add, "deletion_vector", None)
        if vector is not None:
            from distributary.delta.deletion_vectors import dv_file_path

            place = vector.path_or_inline_dv
            if vector.storage_type != "i":
                place = self.url(table, dv_file_path(vector))[0]
            action["deletionVector"] = {
                "storageType": "i" if vector.storage_type == "i" else "p",
                "pathOrInlineDv": place,
                "sizeInBytes": vector.size_in_bytes,
                "cardinality": vector.cardinality,
            }
            if vector.offset is not None:
                action["deletionVector"]["offset"] = vector.offset
        single = {"add" if kind == "file" else kind: action}
        return {"file": {"id": id, "deltaSingleAction": single, "expirationTimestamp": expires, **told}}

    def changes(self, table: DeltaTable, parameters: dict[str, str]) -> Reply:
        from distributary.delta.log.history import read_commit

        first = int(parameters["startingVersion"])
        last = int(parameters.get("endingVersion", table.snapshot().version))
        made: list[dict] = self.head_lines(table, None)
        for version in range(first, last + 1):
            commit = read_commit(table.store, version)
            moment = 1_700_000_000_000 + version
            if commit.change_files:
                made += [self.file_line(table, file, "cdf", version, moment) for file in commit.change_files]
                continue
            made += [
                self.file_line(table, add, "add", version, moment) for add in commit.adds if add.data_change
            ]
            made += [self.file_line(table, gone, "remove", version, moment) for gone in commit.removes]
        return self.table_reply(first, made)

    def file(self, asked: Asked) -> Reply:
        if asked.parameters.get("sig") != SIGNATURE or int(asked.parameters["exp"]) < time.time() * 1000:
            return Reply(403, b"<Error>expired</Error>")
        data = (self.folder / unquote(asked.path.removeprefix("/files/"))).read_bytes()
        text = asked.headers.get("range")
        if text is None:
            return Reply(body=data)
        low, _, high = text.removeprefix("bytes=").partition("-")
        start = int(low) if low else max(0, len(data) - int(high))
        stop = min(len(data), int(high) + 1) if low and high else len(data)
        if start >= len(data):
            return Reply(416, headers={"Content-Range": f"bytes */{len(data)}"})
        headers = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}
        return Reply(206, data[start:stop], headers)


@contextmanager
def scripted_server(folder: Path, format: str = "parquet"):
    server = ScriptedServer(folder, format)
    try:
        yield server
    finally:
        server.close()

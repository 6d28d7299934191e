"""A small Hugging Face hub on this machine: one repository, as much of the protocol as a download needs."""

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves the files of ``folder`` as ``org/model``; what was asked for is in ``asked``."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str | None] = set()
        """What those who asked showed to be let in."""
        self.broken = ""
        """The file whose transfers break off half way."""
        self.silent = ""
        """The file whose transfers stop half way and never end; ``half_sent`` is set when one does."""
        self.half_sent = threading.Event()
        self.released = threading.Event()
        self.gated = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        hub.asked.append((self.command, path))
        hub.tokens.add(self.headers["Authorization"])
        if hub.gated:
            return self.refuse(403, "GatedRepo")
        files = {str(file.relative_to(hub.folder)): file for file in hub.folder.rglob("*") if file.is_file()}
        if path.startswith("/api/models/org/model/revision/"):
            if path.rpartition("/")[2] not in {"main", COMMIT}:
                return self.refuse(404, "RevisionNotFound")
            siblings = [{"rfilename": name} for name in files]
            return self.send_json({"id": "org/model", "sha": COMMIT, "siblings": siblings})
        if path.startswith("/api/models/org/model/tree/"):
            listed = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": etag(file)}
                for name, file in files.items()
            ]
            return self.send_json(listed)
        if path.startswith("/org/model/resolve/"):
            name = path.removeprefix("/org/model/resolve/").partition("/")[2]
            return self.send_file(files[name], body) if name in files else self.refuse(404, "EntryNotFound")
        return self.refuse(401 if "api" in path else 404, "RepoNotFound")

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_file(self, file: Path, body: bool) -> None:
        data = file.read_bytes()
        start = (
            int(self.headers["Range"].removeprefix("bytes=").partition("-")[0])
            if "Range" in self.headers
            else 0
        )
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{etag(file)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if not body:
            return
        if file.name == self.server.silent:
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.server.half_sent.set()
            self.server.released.wait(60)
        if file.name == self.server.broken:
            self.wfile.write(data[start : len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(data[start:])


def etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@contextmanager
def serving(folder: Path) -> Generator[Hub]:
    hub = Hub(folder)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()

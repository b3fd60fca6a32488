"""Malformed requests by the thousand: each is refused with a sentence, and the service goes on."""

import asyncio
import json
import random
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services import ask, service

METHODS = ["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "X"]
OWN = {
    "node": ["nodes"],
    "graph": ["ids", "graphs"],
    "link": ["head", "relation", "tail", "top", "known", "explain", "queries"],
    "text": ["texts", "ids", "explain"],
}
"""The fields of the requests of each task."""
WORDS = [
    *("head", "relation", "tail", "top", "known", "explain", "queries", "texts", "ids", "nodes"),
    *("graphs", "edges", "node_labels", "node_features", "num_nodes", "label", "id", "vectors"),
    *("missing", "by_relation", "split", "q", "kind", "limit", "offset", "of", "hops", "format"),
]
NAMES = ["n1", "ring-0", "person 1", "knows", "charming", "city 4", "leave-out", "csv", "../x", "?"]
PATHS = [
    *("predict", "explain", "search", "graph", "items", "", "missing", "..", "%2e%2e", "card.json"),
    *("predict/", "%00", "%ff%fe", "predict%3f", "\u00e9"),
]
ODD = ["", "\0", "\u202e", "\ud83d\ude00", "a" * 5000, "-1", "1e400", "NaN", "%s%n", "' OR 1", "\n"]
NUMBERS = [0, -1, 1, 3, 2**31, 2**63, 2**64, 10**40, 0.5, -0.0, 1e308, 1e-320]
Requests = list[tuple[bytes, bool]]
"""Bytes to send, and whether they are a whole request."""


class Maker:
    """Makes requests out of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.choose = self.random.choice

    def value(self, depth: int = 0) -> Any:
        """Some JSON, often near what is expected."""
        kinds: list[Callable[[], Any]] = [
            lambda: self.choose(NAMES),
            lambda: self.choose(ODD),
            lambda: self.choose(NUMBERS),
            lambda: self.choose([None, True, False]),
            lambda: [self.value(depth + 1) for _ in range(self.random.randrange(4))],
            lambda: [[self.choose(NAMES), self.choose(NAMES), None]],
            lambda: [[self.choose(NUMBERS), self.choose(NUMBERS)]] * self.random.randrange(3),
            self.graph,
            lambda: {self.choose(WORDS): self.value(depth + 1) for _ in range(2)},
        ]
        return self.choose(kinds[:4] if depth > 3 else kinds)()

    def graph(self) -> Any:
        size = self.random.randrange(5)
        found: dict[str, Any] = {"edges": [[self.random.randrange(6), k] for k in range(size)]}
        for key in ("node_labels", "node_features", "num_nodes", "id", "label"):
            if self.random.random() < 0.3:
                found[key] = self.choose([self.value(3), ["C"] * size, [[1.0]] * size, size])
        return [found] * self.random.randrange(3)

    def field(self, key: str) -> Any:
        """A value that a field may have, or any other."""
        strings = [self.choose(NAMES + ODD[:4]) for _ in range(self.random.randrange(4))]
        rows = [[self.choose([*NAMES, None]) for _ in range(3)] for _ in range(3)]
        expected = {"queries": rows, "graphs": self.graph(), "top": self.choose([1, 2, 1000])}
        expected |= {"explain": True, "known": "leave-out", "head": "person 1", "tail": "city 4"}
        expected |= {"relation": "knows"} | dict.fromkeys(("nodes", "ids", "texts"), strings)
        return self.value() if self.random.random() < 0.3 else expected.get(key)

    def body(self, task: str) -> bytes:
        """JSON that is wrong somewhere, or damaged."""
        words = WORDS if self.random.random() < 0.3 else OWN[task]
        keys = [self.choose(words) for _ in range(self.random.randrange(5))]
        text = json.dumps({key: self.field(key) for key in keys}).encode()
        damage = self.random.randrange(8)
        if damage == 0:
            return text[: self.random.randrange(len(text))]
        if damage == 1:
            return self.random.randbytes(self.random.randrange(60))
        if damage == 2:
            return json.dumps(self.value()).encode()
        if damage == 3 and self.random.random() < 0.2:
            depth = self.random.randrange(20_000)
            return b'{"texts": ' + b"[" * depth + b"]" * depth + b"}"
        return text

    def path(self, task: str) -> str:
        if self.random.random() < 0.1:
            size = self.random.randrange(30)
            return "/" + "".join(self.choose(string.printable[:94] + "/%é") for _ in range(size))
        name = self.choose([task] * 10 + ["nobody", "%2e%2e", "", "Link"])
        first = f"/api/models/{name}/{self.choose(PATHS + PATHS[:5] * 3 + PATHS[:2] * 20)}"
        found = self.choose([first] * 6 + ["/", "/api/models", "/metrics", "/healthz", "/api/runs"])
        if self.random.random() < 0.3:
            values = [str(self.choose([*NAMES, *NUMBERS, *ODD])) for _ in range(3)]
            found += "?" + "&".join(f"{self.choose(WORDS)}={value}" for value in values)
        return found.replace(" ", "%20")

    def headers(self, body: bytes) -> list[bytes]:
        host = b"127.0.0.1" if self.random.random() < 0.97 else self.choose([b"[", b"evil", b""])
        found = [b"Host: " + host, b"Connection: close"]
        if self.random.random() < 0.9:
            found.append(b"Content-Type: application/json")
        if body:
            found.append(b"Content-Length: %d" % len(body))
        elif self.random.random() < 0.5:
            found.append(b"Content-Length: %d" % self.choose([2**20 + 1, 2**63, 10**30]))
        odd = self.random.randrange(40)
        more = {
            1: b"Content-Type: " + self.random.randbytes(8).replace(b"\n", b""),
            2: b"Authorization: Bearer " + b"x" * 9000,
            3: b"Origin: null",
            4: b"If-None-Match: *",
            5: b"Accept-Encoding: \xff",
            6: b"X: " + b"y" * self.choose([10, 60_000, 70_000]),
            7: b"Upgrade: websocket\r\nConnection: upgrade",
            8: b"Expect: 100-continue",
            9: b"Cookie: " + self.random.randbytes(20).replace(b"\n", b"").replace(b"\r", b""),
        }
        return found + ([more[odd]] if odd in more else [])

    def request(self) -> tuple[bytes, bool]:
        """A request, and whether it is whole, so that there must be a reply."""
        task = self.choose(list(OWN))
        body = self.body(task)
        path = self.path(task).encode("latin-1", "replace").translate(None, b"\r\n\t\0\x0b\x0c ")
        method = "POST" if path.endswith((b"/predict", b"/explain")) else "GET"
        if self.random.random() < 0.2:
            method = self.choose(METHODS)
        lines = [b"%s %s HTTP/1.1" % (method.encode(), path), *self.headers(body)]
        whole = b"\r\n".join(lines) + b"\r\n\r\n" + body
        kind = self.random.randrange(20)
        if kind == 0:  # malformed HTTP
            return self.random.randbytes(self.random.randrange(1, 200)) + b"\r\n\r\n", False
        if kind == 1:
            place = self.random.randrange(len(whole))
            return whole[:place] + self.random.randbytes(3) + whole[place:], False
        if kind == 2:  # the client goes away
            return whole[: self.random.randrange(len(whole))], False
        if kind == 3:
            chunked, bad = b"Transfer-Encoding: chunked", self.choose([b"zz\r\n", b"-1\r\n", b""])
            return b"\r\n".join([*lines[:3], chunked, b"", bad]), False
        return whole, True


async def send(port: int, data: bytes, whole: bool) -> bytes:
    """What comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if not whole:
            writer.write_eof()
        return await reader.read()
    except ConnectionError:  # refused before all was sent
        return b""
    finally:
        writer.close()


async def fuzz(port: int, seed: int, count: int) -> Counter[int]:
    """The replies by status, 0 for none."""
    maker, seen = Maker(seed), Counter[int]()
    left = iter(range(count))

    async def client() -> None:
        for _ in left:
            data, whole = maker.request()
            try:
                reply = await asyncio.wait_for(send(port, data, whole), 20)
            except TimeoutError:
                pytest.fail(f"no answer to {data[:2000]!r}")
            if reply.startswith(b"HTTP/1.1 100"):
                reply = reply.partition(b"\r\n\r\n")[2]
            status = int(reply[9:12]) if reply else 0
            assert status not in (500, 501, 502), (data[:2000], reply)
            assert not whole or status or len(data) > 60_000, data[:2000]
            assert b"Traceback" not in reply
            if whole and status >= 400 and b"application/json" in reply and data[:4] != b"HEAD":
                found = json.loads(reply.partition(b"\r\n\r\n")[2])
                assert list(found) == ["error"], (data[:2000], found)
                assert "\n" not in found["error"], (data[:2000], found)
            seen[status] += 1

    await asyncio.gather(*(client() for _ in range(8)))
    return seen


def test_no_request_brings_the_service_down(
    bundles: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = 10_000
    with service(list(bundles.values()), board=tmp_path) as client:
        example = ask(client, "/api/models/link")["example"]
        expected = ask(client, "/api/models/link/predict", example)
        port = client.base_url.port
        assert port is not None
        seen = asyncio.run(fuzz(port, 1, count))
        assert seen.total() == count
        assert seen.keys() == {0, 200, 400, 404, 405, 413, 415, 421, 422}
        assert min(seen.values()) > 20
        assert ask(client, "/api/models/link/predict", example) == expected
        assert set(ask(client, "/healthz")["models"].values()) == {"ready"}
        assert 'status="500"' not in client.get("/metrics").text
    assert "Traceback" not in caplog.text

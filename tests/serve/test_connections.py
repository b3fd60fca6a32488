"""A connection that never sends a whole request does not stay open."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from services import ask, service

from quatgraph.serve.gate import Limits

LIMITS = Limits(seconds=0.3)
HEAD = b"POST /api/models/link/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
JSON = b"Content-Type: application/json\r\n"


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=10)


def seconds_until_closed(connection: socket.socket, drip: bytes) -> tuple[float, bytes]:
    """How long a connection stays open to a client that sends a byte now and then, and what it
    received."""
    start, received = time.monotonic(), b""
    connection.settimeout(0.05)
    while time.monotonic() - start < 10:
        try:
            connection.sendall(drip)
            chunk = connection.recv(4096)
        except TimeoutError:
            continue
        except OSError:
            break
        if not chunk:
            break
        received += chunk
    return time.monotonic() - start, received


@pytest.mark.parametrize(
    ("begin", "drip", "reply"),
    [
        (b"", b"", b""),
        (b"GET / HTTP/1.1\r\nX: ", b"y", b""),
        (HEAD + JSON + b"Content-Length: 1000\r\n\r\n{", b" ", b" 408 "),
        (HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", b" 408 "),
        (HEAD + b"Content-Length: 1000\r\n\r\n{", b" ", b" 415 "),
    ],
    ids=["silent", "headers", "body", "chunks", "refused body"],
)
def test_a_slow_client_is_sent_away(
    bundles: dict[str, Path], begin: bytes, drip: bytes, reply: bytes
) -> None:
    with service([bundles["link"]], limits=LIMITS) as client:
        with connect(client) as connection:
            connection.sendall(begin)
            seconds, received = seconds_until_closed(connection, drip)
        assert 0.2 < seconds < 5
        assert reply in received
        assert ask(client, "/healthz")["status"] == "ok"


def test_a_stop_does_not_wait_for_the_rest_of_a_body(bundles: dict[str, Path]) -> None:
    with service([bundles["link"]], limits=Limits(seconds=20)) as client:
        connection = connect(client)
        connection.sendall(HEAD + JSON + b"Content-Length: 1000\r\n\r\n{")
        ask(client, "/healthz")  # the head has arrived before the stop
        start = time.monotonic()
    with connection:
        assert connection.recv(4096) == b""
    assert time.monotonic() - start < 10


def test_a_long_computation_keeps_its_connection(
    bundles: dict[str, Path], slow_down: Callable[[float], None]
) -> None:
    with service([bundles["link"]], limits=Limits(seconds=0.4)) as client:
        body = ask(client, "/api/models/link")["example"]
        slow_down(1.0)
        reply = client.post("/api/models/link/predict", json=body)
        assert reply.status_code == 504
        assert reply.json() == {"error": "the answer takes more than 0.4 s: ask for less at once"}

"""What every request passes before the application sees it."""

import asyncio
import json
import logging
from typing import Any

import pytest

from quatgraph.serve.counters import Counters
from quatgraph.serve.gate import Gate, Limits, Message

LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


class Reply:
    """What a gate sent."""

    def __init__(self, messages: list[Message]) -> None:
        self.status = messages[0]["status"]
        self.headers = dict(messages[0]["headers"])
        self.body = b"".join(message.get("body", b"") for message in messages[1:])

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


def request(
    path: str = "/api/models",
    headers: dict[str, str] | None = None,
    *,
    method: str = "GET",
    chunks: tuple[bytes, ...] = (b"",),
    counters: Counters | None = None,
    **settings: Any,
) -> Reply:
    """The reply to a request of a gate before an application that returns the body."""
    left = [
        {"type": "http.request", "body": chunk, "more_body": place < len(chunks)}
        for place, chunk in enumerate(chunks, 1)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    given = {"host": "127.0.0.1:8000"} | (headers or {})
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
    }
    asyncio.run(Gate(app, counters or Counters(), **settings)(scope, receive, send))
    return Reply(sent)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9000", "localhost", "LOCALHOST:1", "[::1]:80"]
)
def test_a_loopback_service_answers_to_its_own_names(host: str) -> None:
    assert request(headers={"host": host}, hosts=LOCAL).status == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "[", "[::1", "]", "é"],
)
def test_a_loopback_service_answers_to_no_other_name(host: str) -> None:
    reply = request(headers={"host": host}, hosts=LOCAL)
    assert reply.status == 421
    assert "use 127.0.0.1" in reply.error


def test_a_service_for_other_machines_answers_to_any_name() -> None:
    assert request(headers={"host": "["}).status == 200


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer ", "Bearer secre", "Bearer secret2", "secret", "é"]
)
@pytest.mark.parametrize("path", ["/api/models", "/api/x/predict", "/metrics", "/openapi.json"])
def test_data_needs_the_token(path: str, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given}
    reply = request(path, headers, token="secret")
    assert reply.status == 401
    assert "Authorization: Bearer TOKEN" in reply.error


def test_the_right_token_opens_the_gate() -> None:
    assert request(headers={"authorization": "Bearer secret"}, token="secret").status == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/healthz", "/docs"])
def test_the_page_and_the_health_check_need_no_token(path: str) -> None:
    assert request(path, token="secret").status == 200


def test_a_body_is_measured_before_and_while_it_is_read() -> None:
    limits = Limits(body=10)
    assert request(chunks=(b"12345", b"67890"), limits=limits).body == b"1234567890"
    declared = request(headers={"content-length": "11"}, limits=limits)
    assert (declared.status, declared.error) == (
        413,
        "the request is larger than 10 bytes: send less at once",
    )
    assert request(chunks=(b"12345", b"67890", b"1"), limits=limits).status == 413
    assert request(headers={"content-length": "-1"}, limits=limits).status == 413


def test_pages_have_a_strict_policy_and_data_is_never_a_page() -> None:
    page = request("/").headers
    assert b"default-src 'none'" in page[b"content-security-policy"]
    assert b"unsafe" not in page[b"content-security-policy"]
    assert page[b"x-frame-options"] == b"DENY"
    data = request("/api/models").headers
    assert data[b"cache-control"] == b"no-store"
    assert page[b"x-content-type-options"] == data[b"x-content-type-options"] == b"nosniff"


def test_no_other_site_may_ask_unless_it_is_named() -> None:
    origin = "https://site.example"
    allowed = b"access-control-allow-origin"
    assert allowed not in request(headers={"origin": origin}).headers
    named = {"origins": frozenset({origin})}
    assert request(headers={"origin": origin}, **named).headers[allowed] == origin.encode()
    assert allowed not in request(headers={"origin": "https://other.example"}, **named).headers
    before = request(headers={"origin": origin}, method="OPTIONS", token="secret", **named)
    assert before.status == 204
    # A refusal can be read by the page, too.
    refusal = request(headers={"origin": origin}, token="secret", **named)
    assert (refusal.status, refusal.headers[allowed]) == (401, origin.encode())


def test_requests_are_counted_and_logged_without_bodies(caplog: pytest.LogCaptureFixture) -> None:
    counters = Counters()
    with caplog.at_level(logging.INFO, "quatgraph.access"):
        request("/api/\x1b[31m", chunks=(b"private",), counters=counters)
    assert 'status="200"} 1' in counters.text({}, {})
    (line,) = caplog.messages
    assert line.startswith("GET /api/\\x1b[31m 200 ")
    assert "private" not in line

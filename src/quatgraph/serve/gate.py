"""Handles every request first: checks host, token and sizes, adds headers, and counts and logs the
request without its body."""

import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from quatgraph.errors import printable
from quatgraph.serve.counters import Counters

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOGGER = logging.getLogger("quatgraph.access")
ERRORS = logging.getLogger("quatgraph.serve")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
DATA_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
"""Headers of replies with data, which no browser shows as a page."""
PAGE_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
PROTECTED = ("/api/", "/metrics", "/openapi.json")
"""Paths that need the token; the page itself holds no data."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request."""

    body: int = 1 << 20
    """Bytes of a body."""
    seconds: float = 30.0
    """Time to answer, and to send a body."""


LIMITS = Limits()


class RefusedError(Exception):
    """A rejected request: its status and a one-sentence reason."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Gate:
    """The outermost application.

    Args:
        app: The application behind it.
        counters: The counters to update.
        token: The token that clients must send, if any.
        hosts: Allowed host names; any if empty. Without this check, a page of another site could
            reach the service by resolving its own name to this machine (DNS rebinding).
        origins: Other sites whose pages may send requests; none by default.
        limits: Limits of a request.
    """

    def __init__(
        self,
        app: App,
        counters: Counters,
        *,
        token: str = "",
        hosts: frozenset[str] = frozenset(),
        origins: frozenset[str] = frozenset(),
        limits: Limits = LIMITS,
    ) -> None:
        self.app, self.counters, self.limits = app, counters, limits
        self.token, self.hosts, self.origins = token.encode(), hosts, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, received = time.perf_counter(), 500, 0
        headers, method = dict(scope["headers"]), scope["method"]
        # The server leaves out the body of a reply to HEAD.
        scope = dict(scope, method="GET") if method == "HEAD" else scope
        cors = self._cors(headers)
        more = DATA_HEADERS if scope["path"].startswith(PROTECTED) else PAGE_HEADERS

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *more, *cors]
            await send(message)

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.body:
                raise self._too_large()
            return message

        try:
            self._check(scope, headers)
            if scope["method"] == "OPTIONS" and cors:
                await _reply(sending, 204, b"")
            else:
                await self.app(scope, receiving, sending)
        except RefusedError as refusal:
            await _reply(sending, refusal.status, json.dumps({"error": str(refusal)}).encode())
        except Exception:  # an error of ours, which its client has been told of
            ERRORS.exception("%s %s failed", scope["method"], printable(scope["path"]))
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "other")
            self.counters.count(route, status, seconds)
            if LOGGER.isEnabledFor(logging.INFO):
                path = printable(scope["path"])
                LOGGER.info("%s %s %d %.1f ms", method, path, status, 1000 * seconds)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self.hosts and _host_name(headers) not in self.hosts:
            raise RefusedError(421, "this service is not known by that name; use 127.0.0.1")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.limits.body:
            raise self._too_large()
        if self.token and scope["path"].startswith(PROTECTED) and scope["method"] != "OPTIONS":
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self.token):
                raise RefusedError(
                    401, "a token is needed: send the header Authorization: Bearer TOKEN"
                )

    def _cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin not in self.origins:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"vary", b"origin"),
        ]

    def _too_large(self) -> RefusedError:
        return RefusedError(
            413, f"the request is larger than {self.limits.body:,} bytes: send less at once"
        )


def _host_name(headers: dict[bytes, bytes]) -> str:
    """The name by which the service is called, without its port; empty if it is none."""
    try:
        return urlsplit("//" + headers.get(b"host", b"").decode("latin-1")).hostname or ""
    except ValueError:  # half an IPv6 address
        return ""


async def _reply(send: Send, status: int, body: bytes) -> None:
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": body})

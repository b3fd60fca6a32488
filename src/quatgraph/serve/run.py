"""Starts the service."""

import errno
import logging
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import uvicorn

from quatgraph.errors import UserError
from quatgraph.serve.app import create_app
from quatgraph.serve.board import Board
from quatgraph.serve.connections import limit_connections
from quatgraph.serve.counters import Counters
from quatgraph.serve.gate import Gate, Limits
from quatgraph.serve.registry import Registry

MAX_HEADERS = 1 << 16
"""Bytes of the headers of a request."""
BACKLOG = 2048
"""Connections that may wait to be accepted."""
SWITCH_SECONDS = 0.0002
"""How long a thread may keep others from running Python: every operation of torch lets the event
loop run, and would otherwise wait up to 5 ms for its turn."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the service, and who may access it."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    no_auth: bool = False
    origins: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise UserError(
                "a token is made of visible ASCII characters, for instance "
                f"{secrets.token_urlsafe(16)}; clients could not send this one"
            )
        for origin in self.origins:
            parts = urlsplit(origin)
            if not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
                raise UserError(
                    f"--cors {origin} is not the origin of a site; write it as "
                    "https://site.example, without a path"
                )
        if self.host not in LOOPBACK and not self.token and not self.no_auth:
            raise UserError(
                f"{self.host} can be reached from other machines: give --token, for instance "
                f"--token {secrets.token_urlsafe(16)}, or --no-auth to let everyone ask"
            )


def build(registry: Registry, board: Board | None, address: Address, limits: Limits) -> Gate:
    """The whole application."""
    counters = Counters()
    app = create_app(registry, board, counters=counters, limits=limits)
    hosts = LOOPBACK if address.host in LOOPBACK else frozenset[str]()
    return Gate(
        app,
        counters,
        token=address.token,
        hosts=hosts,
        origins=address.origins,
        limits=limits,
    )


def serve(
    registry: Registry,
    board: Board | None,
    address: Address,
    limits: Limits,
    ready: Callable[[str], None],
) -> None:
    """Serves until a signal; requests that run are then finished.

    Args:
        registry: The models.
        board: The results board, if any.
        address: Where to listen.
        limits: What a request may take.
        ready: Called with the URL once the port is bound.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    # After a signal uvicorn stops, and repeats it.
    with suppress(KeyboardInterrupt), bind(address.host, address.port) as listener:
        port = listener.getsockname()[1]
        shown = f"[{address.host}]" if ":" in address.host else address.host
        ready(f"http://{shown}:{port}/")
        make_server(build(registry, board, address, limits), limits).run(sockets=[listener])


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on a port, or on any free one for 0; clients wait to be served."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol by name, asyncio turns Nagle's algorithm off, which adds 40 ms to a reply.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        listener.close()
        reason, remedy = "there is no such address", "--host"
        if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
            if error.errno != errno.EADDRNOTAVAIL:
                remedy = "--port"
            reason = error.strerror or str(error)
        raise UserError(
            f"cannot listen on {host}:{port} ({reason}): choose another {remedy}"
        ) from None
    return listener


def make_server(app: Gate, limits: Limits) -> uvicorn.Server:
    """The HTTP server of an application."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=limit_connections(limits.seconds),
        ws="none",
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        h11_max_incomplete_event_size=MAX_HEADERS,
    )
    return uvicorn.Server(config)

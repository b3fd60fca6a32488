"""Closes connections that send no complete request, so that no client can hold many open."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

Base: Any = AutoHTTPProtocol


def limit_connections(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which closes a connection on which for some seconds no request runs and
    no new one has arrived with all its headers."""

    class LimitedProtocol(Base):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.watch = self.loop.call_later(seconds, self.close_if_idle, None)

        def connection_lost(self, error: Exception | None) -> None:
            self.watch.cancel()
            super().connection_lost(error)

        def close_if_idle(self, before: Any) -> None:
            """``before`` is the last request that had arrived when this was called before."""
            last = self.cycle
            if last is before and (last is None or last.response_complete):
                self.transport.close()
            else:
                self.watch = self.loop.call_later(seconds, self.close_if_idle, last)

        def shutdown(self) -> None:
            """Lets a request that runs finish, but does not wait for the rest of a body."""
            if self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body:
                self.give_up()
                self.transport.close()
            else:
                super().shutdown()

        def give_up(self) -> None:
            """Tells the request that waits for its body that no more of it comes."""
            self.cycle.disconnected = True
            self.cycle.message_event.set()

        def send_400_response(self, message: str) -> None:
            """Refuses what is not HTTP; a request whose body it was in is given up."""
            if self.cycle is not None and not self.cycle.response_complete:
                self.give_up()
            try:
                super().send_400_response(message)
            except Exception:  # it came after the reply
                self.transport.close()

    return LimitedProtocol

"""Clients that keep connections open, send one query after the other, and time the replies.

They run in a separate process, so clients and the service do not share an interpreter.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any


async def _client(
    port: int, requests: Sequence[bytes], first: int, end: float, times: list[float]
) -> Counter[int]:
    """Asks until the end; the times of the answers in milliseconds, and their status codes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seen, place = Counter[int](), first
    while time.perf_counter() < end:
        start = time.perf_counter()
        writer.write(requests[place % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        await reader.readexactly(size)
        times.append(1e3 * (time.perf_counter() - start))
        seen[int(head[9:12])] += 1
        place += 1
    writer.close()
    return seen


async def _load(port: int, path: str, bodies: list[Any], clients: int, seconds: float) -> Any:
    requests = []
    for body in bodies:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        requests.append(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    times: list[float] = []
    start = time.perf_counter()
    work = [
        _client(port, requests, 7919 * number, start + seconds, times) for number in range(clients)
    ]
    seen: Counter[int] = sum(await asyncio.gather(*work), Counter())
    passed = time.perf_counter() - start
    times.sort()
    return {
        "per_second": len(times) / passed,
        "p50": times[len(times) // 2],
        "p99": times[len(times) * 99 // 100],
        "worst": times[-1],
        "errors": sum(seen.values()) - seen[200],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_load(**json.load(sys.stdin)))))

"""The metrics of the service, in Prometheus format."""

import resource
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of seconds."""


class Counters:
    """Counts requests by route and status, and their durations."""

    def __init__(self) -> None:
        self.started = time.time()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = defaultdict(float)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Counts one request."""
        self._requests[route, status] += 1
        buckets = self._buckets.setdefault(route, [0] * (len(BOUNDS) + 1))
        buckets[bisect_left(BOUNDS, seconds)] += 1
        self._seconds[route] += seconds

    def text(self, models: Mapping[str, str], batches: Mapping[str, int]) -> str:
        """All numbers in Prometheus's text format."""
        lines = ["# TYPE quatgraph_requests_total counter"]
        for (route, status), count in sorted(self._requests.items()):
            lines.append(
                f'quatgraph_requests_total{{route="{_escape(route)}",status="{status}"}} {count}'
            )
        lines.append("# TYPE quatgraph_request_seconds histogram")
        for route, buckets in sorted(self._buckets.items()):
            name, total = _escape(route), 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                total += count
                lines.append(
                    f'quatgraph_request_seconds_bucket{{route="{name}",le="{bound}"}} {total}'
                )
            lines.append(f'quatgraph_request_seconds_sum{{route="{name}"}} {self._seconds[route]}')
            lines.append(f'quatgraph_request_seconds_count{{route="{name}"}} {total}')
        for name, value in batches.items():
            lines += [f"# TYPE quatgraph_{name}_total counter", f"quatgraph_{name}_total {value}"]
        lines.append("# TYPE quatgraph_model_ready gauge")
        for model, state in models.items():
            ready = int(state == "ready")
            lines.append(f'quatgraph_model_ready{{model="{_escape(model)}"}} {ready}')
        # Linux counts kibibytes, macOS bytes.
        scale = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
        lines += [
            "# TYPE quatgraph_peak_memory_bytes gauge",
            f"quatgraph_peak_memory_bytes {peak}",
            "# TYPE quatgraph_start_time_seconds gauge",
            f"quatgraph_start_time_seconds {self.started}",
        ]
        return "\n".join(lines) + "\n"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

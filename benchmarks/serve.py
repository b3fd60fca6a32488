"""The service under load: 16 clients, each sending one query after the other for a minute.

Clients, the service and all other processes share the machine's cores. ``bare`` is FastAPI with
empty replies, an upper bound for any service; ``pool`` predicts in FastAPI's thread pool.
"""

import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import measure
from quatgraph import config as configs
from quatgraph.data import link as source
from quatgraph.data.link import Triples
from quatgraph.models.link import build_model
from quatgraph.presets import preset
from quatgraph.serve.names import NameIndex
from quatgraph.tasks.job import train_in_folder
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.training.bundle import Bundle, save_bundle
from quatgraph.training.context import Context

CLIENTS, SECONDS, WARM_UP = 16, 60.0, 3.0
ENTITIES, DIM_QUATS, TRIPLES = 40_000, 64, 200_000
NAMES = 1_000_000
COUNTRIES = "countries, 1,536 entities of 96 numbers"


def rows(device: torch.device, seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
    """Rows of loads, of the start, and of searches; the service runs on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        countries, large = Path(folder) / "countries", Path(folder) / "large"
        config = configs.build(LinkConfig, preset("link/countries-simqgnn", "honest"))
        train_in_folder(LINK, [config], countries, Context(torch.device("cpu")))
        yield from measure_start(countries)
        yield from measure_load(COUNTRIES, countries, source.load("countries"), seconds)
        triples = made_up(ENTITIES, TRIPLES)
        save_untrained(large, triples, DIM_QUATS)
        case = f"{ENTITIES:,} entities of {4 * DIM_QUATS} numbers"
        yield from measure_load(case, large, triples, seconds)
    yield from measure_search(device)


def measure_load(
    case: str, bundle: Path, triples: Triples, seconds: float
) -> Iterator[dict[str, Any]]:
    """The answers per second and their times, in milliseconds."""
    bodies = queries_of(triples)
    for variant in ("quatgraph serve", "pool", "bare"):
        with running(variant, bundle) as (port, process):
            path = f"/api/models/{bundle.name}/predict"
            load(port, path, bodies, WARM_UP)
            before = resident_mib(process.pid)
            found = load(port, path, bodies, seconds)
            grown = resident_mib(process.pid) - before
        yield {
            "case": case,
            "work": f"{CLIENTS} clients, {seconds:g} s",
            "variant": variant,
            **found,
            "grown_mib": round(grown, 1),
        }


def measure_start(bundle: Path, repeats: int = 5) -> Iterator[dict[str, Any]]:
    """The seconds from the command to the page, and to the first answer, each a median."""
    times: dict[str, list[float]] = {"page": [], "first answer": []}
    body = queries_of(source.load("countries"))[0]
    for _ in range(repeats):
        began = time.perf_counter()
        with running("quatgraph serve", bundle, wait=False) as (port, _):
            wait_for(port, "/")
            times["page"].append(time.perf_counter() - began)
            wait_for(port, f"/api/models/{bundle.name}/predict", body)
            times["first answer"].append(time.perf_counter() - began)
    for work, own in times.items():
        middle = sorted(own)[len(own) // 2]
        case = {"case": COUNTRIES, "work": f"from the command to the {work}"}
        yield {**case, "variant": "quatgraph serve", "seconds": round(middle, 3)}


def measure_search(device: torch.device, count: int = NAMES) -> Iterator[dict[str, Any]]:
    """The time of searches among many names, and of preparing them."""
    words = [f"{place * 2_654_435_761 % 2**32:08x}" for place in range(count)]
    names = [f"{word[:4]} {word[4:]} of {place % 977}" for place, word in enumerate(words)]
    began = time.perf_counter()
    index = NameIndex(names, names)
    prepared = time.perf_counter() - began
    case = {"case": f"{count:,} names", "variant": "quatgraph serve"}
    yield {**case, "work": "prepare", "seconds": round(prepared, 3)}
    middle = names[count // 2]
    wanted = {
        "a first letter": middle[0],
        "a beginning": middle[:6],
        "a word within": middle.split()[1],
        "a typing error": middle[:3] + "x" + middle[4:],
        "nothing like it": "zzzz yyyy",
    }
    for work, query in wanted.items():
        found = measure(partial(index.search, query, 10), torch.device("cpu"))
        yield {**case, "work": work, **found}


def queries_of(triples: Triples) -> list[dict[str, str]]:
    """Queries for tails and heads, out of training triples."""
    ends, kinds = triples.entity_labels, triples.relation_labels
    found = []
    for head, relation, tail in triples.train[:: max(1, len(triples.train) // 2000)].tolist():
        found.append({"head": ends[head], "relation": kinds[relation]})
        found.append({"tail": ends[tail], "relation": kinds[relation]})
    return found


@contextmanager
def running(
    variant: str, bundle: Path, wait: bool = True
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A service in a process of its own: its port and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served = ["-m", "quatgraph", "serve", str(bundle), "--quiet", "--port", str(port)]
    peer = ["-m", "benchmarks.serve_peers", variant, str(bundle), str(port)]
    command = [sys.executable, *(served if variant == "quatgraph serve" else peer)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        if wait:
            wait_for(port, "/healthz")
        yield port, process
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int, path: str, body: Any = None, seconds: float = 120.0) -> None:
    """Asks until there is an answer, and no model loads any more."""
    end = time.monotonic() + seconds
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    while time.monotonic() < end:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                if path != "/healthz" or b'"loading"' not in reply.read():
                    return
        except OSError:  # also a status of 503
            pass
        time.sleep(0.01)
    raise TimeoutError(f"no answer from {path}")


def load(port: int, path: str, bodies: Sequence[Any], seconds: float) -> dict[str, Any]:
    """What clients in a process of their own see."""
    given = {"port": port, "path": path, "bodies": bodies, "clients": CLIENTS, "seconds": seconds}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return {name: round(value, 2) for name, value in found.items()}


def resident_mib(process: int) -> float:
    """The memory that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def made_up(num_entities: int, num_triples: int, num_relations: int = 20) -> Triples:
    """A random knowledge graph."""
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> torch.Tensor:
        sizes = (num_entities, num_relations, num_entities)
        return torch.stack([torch.randint(n, (count,), generator=generator) for n in sizes], dim=1)

    ends = [f"entity {place}" for place in range(num_entities)]
    kinds = [f"relation {place}" for place in range(num_relations)]
    held_out = max(1, num_triples // 200)
    parts = draw(num_triples), draw(held_out), draw(held_out)
    return Triples("made up", *parts, ends, kinds, ends, kinds)


def save_untrained(folder: Path, triples: Triples, dim_quats: int) -> None:
    """A bundle of QuatE with random vectors: answers take as long as those of a trained one."""
    options = {"name": "embeddings", "decoder": "quate", "dim_quats": dim_quats}
    config = configs.build(LinkConfig, {"data": {"path": "made up"}, "model": options})
    model = build_model(config.model, triples, reciprocal=config.data.reciprocal)
    names = ("entities", "relations", "entity_labels", "relation_labels", "notes")
    member = {"config": configs.to_dict(config), "split": 0, "seed": 0, "weight": 1}
    card = {
        **{name: getattr(triples, name) for name in names},
        "features": [],
        "task": "link",
        "members": [member],
        "metrics": {},
        "data": {"name": triples.name, "digest": triples.digest},
    }
    tensors = {f"members.0.{name}": value for name, value in model.state_dict().items()}
    data = LINK.bundled_tensors(triples, [config])
    save_bundle(folder, Bundle(card, tensors | {f"data.{name}": v for name, v in data.items()}))

"""The sparse sum compared with all of torch's alternatives."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.limits import reached
from benchmarks.measure import measure
from quatgraph.adjacency import Adjacency

SIZES = {
    # rows, columns, entries, width
    "cpu": {
        "cora features, four copies": (2_708, 5_732, 196_864, 16),
        "cora graph, ten members": (2_708, 2_708, 13_264, 160),
        "pubmed features": (19_717, 500, 988_031, 64),
        "pubmed graph": (19_717, 19_717, 108_365, 64),
        "300,000 nodes": (300_000, 300_000, 2_000_000, 256),
    },
    "cuda": {
        "pubmed features": (19_717, 500, 988_031, 64),
        "pubmed graph, 30 members": (19_717, 19_717, 108_365, 1_920),
        "a million nodes": (1_000_000, 1_000_000, 10_000_000, 256),
    },
}
BEYOND_CACHE = 1 << 28
"""Above this size in bytes, rows of x come from memory, so their reads can be counted."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    limits = reached(device)
    yield from limits.rows
    for case, (num_rows, num_cols, entries, width) in SIZES[device.type].items():
        matrix = random_matrix(num_rows, num_cols, entries, device)
        x = torch.randn(num_cols, width, device=device)
        repeats = 5 if entries * width > 5e8 else 20
        counts = x.nbytes >= BEYOND_CACHE
        moved = gigabytes(num_rows, entries, width)
        for variant, product in _variants(matrix).items():
            row = {"case": case, "variant": variant, "work": "forward"}
            timed = measure(partial(product, x), device, repeats=repeats)
            yield row | (limits.against(timed, gb=moved) if counts else timed)
        x.requires_grad_()
        grad = torch.randn(num_rows, width, device=device)
        moved += gigabytes(num_cols, entries, width)
        for variant, product in _trainable(matrix).items():
            row = {"case": case, "variant": variant, "work": "forward and backward"}
            timed = measure(partial(_both, product, x, grad), device, repeats=min(10, repeats))
            yield row | (limits.against(timed, gb=moved) if counts else timed)


def gigabytes(num_rows: int, entries: int, width: int) -> float:
    """The bytes a sum moves: a row of x read per entry, one written per row."""
    return 4 * width * (entries + num_rows) / 1e9


def _both(product: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor) -> None:
    x.grad = None
    product(x).backward(grad)


def random_matrix(
    num_rows: int, num_cols: int, entries: int, device: torch.device, seed: int = 0
) -> Adjacency:
    draw = torch.Generator().manual_seed(seed)
    row = torch.randint(num_rows, (entries,), generator=draw)
    col = torch.randint(num_cols, (entries,), generator=draw)
    weight = torch.rand(entries, generator=draw)
    moved = (row.to(device), col.to(device), weight.to(device))
    return Adjacency.from_entries(*moved, (num_rows, num_cols))


def csr(matrix: Adjacency) -> Tensor:
    # Said outright that nothing is checked: torch warns where it has to assume it.
    return torch.sparse_csr_tensor(
        matrix.rowptr, matrix.col, matrix.weight, matrix.shape, check_invariants=False
    )


def _trainable(matrix: Adjacency) -> dict[str, Callable[[Tensor], Tensor]]:
    sparse = csr(matrix)
    return {"quatgraph": lambda x: matrix @ x, "torch CSR": lambda x: sparse @ x}


def _variants(matrix: Adjacency) -> dict[str, Callable[[Tensor], Tensor]]:
    receiver, col, offsets = matrix.receiver.long(), matrix.col.long(), matrix.rowptr.long()
    found = _trainable(matrix) | {
        "torch embedding bag": lambda x: F.embedding_bag(
            col,
            x,
            offsets,
            mode="sum",
            per_sample_weights=matrix.weight,
            include_last_offset=True,
        ),
    }
    if matrix.num_edges < 2_000_000:  # it holds a row for every entry
        found["torch index_add"] = lambda x: x.new_zeros(matrix.shape[0], x.size(1)).index_add_(
            0, receiver, matrix.weight[:, None] * x.index_select(0, col)
        )
    return found

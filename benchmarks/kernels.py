"""The kernels of a training step and their plain forms, on a GPU, inside a captured CUDA graph."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import measure_captured
from quatgraph.ops import backend, hamilton_matrix, table_and_rows
from quatgraph.ops.backend import Backend
from quatgraph.ops.batch_rows import batch_rows
from quatgraph.ops.cross_entropy import smoothed_cross_entropy
from quatgraph.ops.dropout import keyed_dropout
from quatgraph.ops.masked_norm import masked_norm
from quatgraph.ops.random import random_order
from quatgraph.ops.split import split_columns
from quatgraph.training.optim import MemberAdam

MEMBERS, GRAPHS = 80, 4
SIZES = {"32 quaternions": (96, 128), "128 quaternions": (96, 512)}
"""Nodes per member and reals per node, as in a batch of molecules."""
ENTITIES, RELATIONS = (17_050, 1_024, 128), 102
"""Entities, queries of a step, reals per vector and relations with inverses, as on CoDEx-M."""
QUERIES = 101_136

Run = Callable[..., Tensor | tuple[Tensor, ...]]
Work = tuple[Callable[[], tuple[Tensor, ...]], Callable[[], tuple[Tensor, ...]]]
"""A kernel, its plain form, which may be the same function without kernels, and their inputs."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    """Nothing on a CPU, which has only the plain forms."""
    if device.type != "cuda":
        return
    cases = {
        f"{MEMBERS} members, {case}": ensemble_works(MEMBERS, *sizes, device)
        for case, sizes in SIZES.items()
    }
    entities, queries, width = ENTITIES
    case = f"{entities:,} entities, {queries:,} queries, {width} wide"
    cases[case] = entity_works(*ENTITIES, device)
    for case, works in cases.items():
        for work, (ours, plain) in works.items():
            variants: dict[Backend, Callable[[], object]] = {"triton": ours, "torch": plain}
            for variant, run in variants.items():
                with backend(variant):
                    timed = measure_captured(run, device)
                yield {"case": case, "work": work, "variant": variant, **timed}


def _both(run: Run, inputs: tuple[Tensor, ...], plain: Run | None = None) -> Work:
    return partial(_gradients, run, inputs), partial(_gradients, plain or run, inputs)


def _gradients(run: Run, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Runs an operation forward and backward."""
    found = run(*inputs)
    outputs = (found,) if isinstance(found, Tensor) else found
    wanted = [value for value in inputs if value.requires_grad]
    return torch.autograd.grad(outputs, wanted, [value.detach() for value in outputs])


def ensemble_works(members: int, nodes: int, width: int, device: torch.device) -> dict[str, Work]:
    """The work of a step for all members of an ensemble."""
    x = torch.randn(members, nodes, width, device=device, requires_grad=True)
    quats = width // 4
    weight = torch.randn(members, 4, quats, quats, device=device, requires_grad=True)
    draws = torch.arange(2 * members, device=device).view(members, 2)
    rate = torch.full((members,), 0.5, device=device)
    norm, vectors = _norm(width, device, members)
    given: dict[str, tuple[Run, tuple[Tensor, ...]]] = {
        "Hamilton matrix": (hamilton_matrix, (weight,)),
        "masked norm": (norm, (x, torch.ones(members, nodes, device=device), *vectors)),
    }
    works = {work: _both(torch.vmap(run), inputs) for work, (run, inputs) in given.items()}
    logits = torch.randn(members, GRAPHS, 2, device=device, requires_grad=True)
    labels = torch.zeros(members, GRAPHS, dtype=torch.int64, device=device)
    return works | {
        "dropout": _both(
            lambda x: keyed_dropout(x, draws, rate, 0),
            (x,),
            lambda x: x * ((torch.rand_like(x) >= rate[:, None, None]) / (1 - rate[:, None, None])),
        ),
        "cross-entropy": _both(
            lambda logits: smoothed_cross_entropy(logits, labels, 0.1), (logits,)
        ),
        "graph batching": (_batch(members, nodes // GRAPHS, device),) * 2,
        "Adam": (_adam(members, weight[0].numel(), device),) * 2,
    }


def entity_works(entities: int, queries: int, width: int, device: torch.device) -> dict[str, Work]:
    """The work of a step on all entities of a knowledge graph."""
    table = torch.randn(entities, width, device=device, requires_grad=True)
    relations = torch.randn(RELATIONS, width, device=device, requires_grad=True)
    head, relation = (torch.randint(n, (queries,), device=device) for n in (entities, RELATIONS))
    sizes = (entities * width, queries * width, width, width)
    flat = torch.randn(1, sum(sizes), device=device, requires_grad=True)
    draws = torch.tensor([[0, 0]], device=device)
    norm, vectors = _norm(width, device)
    tanh = partial(norm, activation="tanh")

    def of_all(x: Tensor, *vectors: Tensor) -> Tensor:
        return tanh(x, None, *vectors)

    def look_up_heads(table: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        return table_and_rows(table, head, times=(relations, relation))

    def select(table: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        return table, table.index_select(0, head) * relations.index_select(0, relation)

    return {
        "batch norm and tanh of all entities": _both(of_all, (table, *vectors)),
        "entity lookup and head-relation product": _both(look_up_heads, (table, relations)),
        "the same, torch with atomics": _both(look_up_heads, (table, relations), select),
        "gradient layout for Adam": _both(
            lambda flat: split_columns(flat, sizes), (flat,), lambda flat: flat.split(sizes, dim=1)
        ),
        "Adam": (_adam(1, sum(sizes), device),) * 2,
        "random order of all queries": (lambda: (random_order(draws, 0, QUERIES),),) * 2,
    }


def _batch(members: int, nodes: int, device: torch.device) -> Callable[[], tuple[Tensor, ...]]:
    """A concatenated collection of graphs with the given number of nodes each."""
    count = 100
    node_ptr = nodes * torch.arange(count + 1, dtype=torch.int32, device=device)
    drawn = torch.randint(count, (members, GRAPHS), device=device)
    labels = torch.zeros(count, dtype=torch.int64, device=device)
    size = count * nodes
    codes = node_ptr.new_zeros(size), torch.ones(size, device=device)

    def laid_out() -> tuple[Tensor, ...]:
        rows = batch_rows(node_ptr, drawn, GRAPHS * nodes, labels, codes)
        return rows.node, rows.node_shift, rows.slot_shift, rows.graph, rows.graph_shift

    return laid_out


def _adam(members: int, size: int, device: torch.device) -> Callable[[], tuple[Tensor, ...]]:
    """A step with gradient clipping; the gradient is always the same."""
    learned = nn.Parameter(torch.randn(members, size, device=device))
    optimizer = MemberAdam([learned], lr=[0.01] * members, weight_decay=[0.0] * members, clip=0.5)
    learned.grad = torch.randn_like(learned)

    def step() -> tuple[Tensor, ...]:
        optimizer.step()
        return (learned.detach(),)

    return step


def _norm(
    width: int, device: torch.device, *lead: int
) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """The norm, with its weight, bias and running statistics."""
    ones, zeros = (make(*lead, width, device=device) for make in (torch.ones, torch.zeros))
    learned = ones.clone().requires_grad_(), zeros.clone().requires_grad_()
    return partial(masked_norm, eps=1e-5, momentum=0.1), (*learned, zeros, ones)

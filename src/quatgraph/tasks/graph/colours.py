r"""The colours of the Weisfeiler-Lehman test, and their histograms.

A node's first colour is a hash of its tag or degree. Each round mixes it with those of its
neighbours, with :math:`m` a bijective hash of 64 bits and sums modulo :math:`2^{64}`:

.. math:: c_v \leftarrow m\Big(a \, c_v + \sum_{u \in \mathcal N(v)} m(c_u)\Big)

With labels of edges, a neighbour's :math:`m(c_u)` is :math:`m(m(c_u) + l_{u,v})`, with a hash l of
the label.

Hashes need no table of colours, so a new graph gets the colours of the training graphs.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import torch
from torch import Tensor

from quatgraph.codes import Codes
from quatgraph.data.graph.collection import Graphs
from quatgraph.data.tensors import sizes_to_ptr
from quatgraph.errors import UserError
from quatgraph.tasks.graph.features import Kind

BITS = 64
OWN = -0x61C8864680B583EB
"""The factor a of a node's own colour: any odd number, as int64."""
FACTORS = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""Multipliers of the hash m, the last step of SplitMix64; its shifts are 30, 27 and 31."""


def node_colours(graphs: Graphs, kind: Kind, rounds: int, *, edges: bool = False) -> Tensor:
    """The colours of all nodes after 0 to ``rounds`` rounds, int64 ``(rounds + 1, N)``.

    Args:
        kind: What the colours start from. Real attributes play no part.
        edges: Whether the label of an edge is part of the neighbour's colour, if edges have labels.
    """
    if kind == "tags":
        colour = _hash_names(graphs.tag_names)[graphs.tags]
    else:
        degrees, place = graphs.degrees.unique(return_inverse=True)
        colour = _hash_names(map(str, degrees.tolist()))[place]
    sender, receiver = graphs.edge_index
    label = None
    if edges and graphs.edge_tags is not None:
        label = _hash_names(graphs.edge_tag_names)[graphs.edge_tags]
    colours = [colour]
    for _ in range(rounds):
        sent = _mix(colour)[sender]
        sent = sent if label is None else _mix(sent + label)
        received = torch.zeros_like(colour).index_add_(0, receiver, sent)
        colour = _mix(OWN * colour + received)
        colours.append(colour)
    return torch.stack(colours)


@lru_cache(maxsize=1)  # a training prepares its data and its bundle with it
def fit_vocabulary(graphs: Graphs, kind: Kind, rounds: int, *, edges: bool = False) -> Tensor:
    """The colours that at least two graphs have, sorted, int64 ``(T,)``; the colour of a single
    graph says nothing about others. All graphs count, test folds included, without labels."""
    found = node_colours(graphs, kind, rounds, edges=edges)
    colours, place = found.flatten().unique(return_inverse=True)
    pairs = (_owners(graphs, rounds) * len(colours) + place).unique()
    shared = (pairs % len(colours)).bincount(minlength=len(colours)) > 1
    if not bool(shared.any()):
        raise UserError(
            f"no {kind.removesuffix('s')} of a node occurs in two graphs, so model.name=wl has "
            "nothing to compare: choose another model"
        )
    return colours[shared]


def histograms(
    graphs: Graphs, kind: Kind, rounds: int, vocabulary: Tensor, *, edges: bool = False
) -> tuple[Tensor, Codes]:
    """The histogram of the colours of each graph, over all rounds.

    An entry is the square root of a count, and a histogram has unit length. Colours that are not in
    the vocabulary count for nothing.

    Returns:
        Where the entries of each graph begin, and their number, ``(G + 1,)``; and the entries of
        all graphs, each a place in the vocabulary and a weight.
    """
    colours = node_colours(graphs, kind, rounds, edges=edges).flatten()
    vocabulary = vocabulary.cpu()
    place = torch.searchsorted(vocabulary, colours).clamp(max=len(vocabulary) - 1)
    pairs = _owners(graphs, rounds) * len(vocabulary) + place
    pairs, counts = pairs[vocabulary[place] == colours].unique(return_counts=True)
    graph, code = pairs // len(vocabulary), pairs % len(vocabulary)
    # The squared length is the sum of the counts.
    totals = counts.new_zeros(len(graphs)).index_add_(0, graph, counts)
    weight = (counts / totals[graph]).sqrt()
    ptr = sizes_to_ptr(graph.bincount(minlength=len(graphs)))
    return ptr, Codes(code.int(), weight, len(vocabulary))


def vocabulary_key(kind: Kind, rounds: int, *, edges: bool = False) -> str:
    """The name of a vocabulary in a bundle."""
    return f"colours-{kind}-{rounds}{'-edges' * edges}"


def _owners(graphs: Graphs, rounds: int) -> Tensor:
    """The graph of each colour of all rounds, ``((rounds + 1) * N,)``."""
    return torch.arange(len(graphs)).repeat_interleave(graphs.node_ptr.diff()).repeat(rounds + 1)


def _hash_names(names: Iterable[str]) -> Tensor:
    encoded = (name.encode(errors="surrogatepass") for name in names)
    digests = (hashlib.blake2b(name, digest_size=BITS // 8).digest() for name in encoded)
    return torch.tensor([int.from_bytes(one, "little", signed=True) for one in digests])


def _mix(x: Tensor) -> Tensor:
    """The hash m; int64 products wrap around."""
    x = (x ^ _shift_right(x, 30)) * FACTORS[0]
    x = (x ^ _shift_right(x, 27)) * FACTORS[1]
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, count: int) -> Tensor:
    """Shifts in zeros, where torch's operator repeats the sign."""
    return (x >> count) & ((1 << (BITS - count)) - 1)

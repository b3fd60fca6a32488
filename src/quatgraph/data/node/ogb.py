"""A graph in the layout of the Open Graph Benchmark, such as ``ogbn-arxiv`` or ``ogbn-products``.

``raw/`` holds ``edge`` (sender, receiver), ``num-node-list``, and optionally ``node-feat`` and
``node-label``; ``split/NAME/`` may hold ``train``, ``valid`` and ``test``, each with a node per
line. All are ``.csv`` or ``.csv.gz`` files without a header. They are read piece by piece, so
memory holds only the resulting arrays and one piece.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.edges import merge_edges, merge_notes
from quatgraph.data.io.files import PACKINGS, open_packed
from quatgraph.data.io.numbers import Rows, real_numbers, whole_numbers
from quatgraph.data.node.assembly import MAX_NUMBERS
from quatgraph.data.node.options import ReadOptions
from quatgraph.data.node.pyg import MASKS, from_data
from quatgraph.data.splits import PARTS
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

PIECE = 1 << 24
"""Bytes of text that are parsed at once."""


def is_ogb_folder(path: Path) -> bool:
    """Whether a path is a folder with OGB's ``raw/edge.csv``, packed or not."""
    return _find(path / "raw", "edge") is not None


def read_ogb(path: Path, *, options: ReadOptions) -> "Data":
    """Reads a folder. Each edge gets both directions, unless the options say ``directed``."""
    from torch_geometric.data import Data

    raw = path / "raw"
    num_nodes = _read_count(_needed(raw, "num-node-list"))
    ends = _read_matrix(_needed(raw, "edge"), whole_numbers, np.int64, width=2)
    _check_nodes(ends, num_nodes, _needed(raw, "edge"))
    sender, receiver = np.ascontiguousarray(ends.T)
    del ends
    notes = merge_notes(sender, receiver, num_nodes, directed=options.directed)
    edge_index, _ = merge_edges(sender, receiver, num_nodes, directed=options.directed)
    del sender, receiver
    data = Data(name=path.resolve().name, edge_index=edge_index, num_nodes=num_nodes)
    if features := _find(raw, "node-feat"):
        data.x = torch.from_numpy(_read_matrix(features, real_numbers, np.float32, num_nodes))
    if labels := _find(raw, "node-label"):
        data.y = _read_labels(labels, num_nodes)
    for mask, part in _read_split(path / "split", num_nodes).items():
        data[mask] = part
    try:
        graph = from_data(data, split_seed=options.split_seed, labels_needed=options.labels_needed)
    except UserError as mistake:
        raise UserError(f"{path}: {mistake}") from None
    if options.labels_needed:
        where = _needed(raw, "edge")
        ways = "one direction" if options.directed else "both directions"
        found = [f"{where}: edges are read in {ways}", *(f"{where}: {note}" for note in notes)]
        graph.notes = found + graph.notes
    return graph


def _find(folder: Path, stem: str) -> Path | None:
    paths = (folder / f"{stem}.csv{packing}" for packing in PACKINGS)
    return next(filter(Path.is_file, paths), None)


def _needed(folder: Path, stem: str) -> Path:
    if found := _find(folder, stem):
        return found
    raise UserError(
        f"there is no {folder / stem}.csv.gz; put the whole folder of the dataset there"
    )


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """The text of a file in pieces of whole lines, each with the number of its first line."""
    line, rest = 1, b""
    with open_packed(path) as stream:
        while piece := stream.read(PIECE):
            text, newline, rest = (rest + piece).rpartition(b"\n")
            yield line, text + newline
            line += text.count(b"\n") + len(newline)
    yield line, rest


def _read_matrix(
    path: Path,
    parse: Callable[..., Rows],
    dtype: type,
    rows: int | None = None,
    width: int | None = None,
) -> NDArray[Any]:
    """The numbers of a file, ``(rows, width)``; both are checked if they are known."""
    made: NDArray[Any] | None = None
    filled = 0
    for line, text in _pieces(path):
        found = parse(text, str(path), line)
        if not len(found):
            continue
        part = found.matrix(width)
        width = part.shape[1]
        if made is None:
            made = np.empty((_capacity(path, rows, width, len(part)), width), dtype)
        if rows is not None and filled + len(part) > rows:
            raise _wrong_rows(path, "more", rows)
        if filled + len(part) > len(made):
            made.resize((2 * filled + len(part), width), refcheck=False)
        made[filled : filled + len(part)] = part
        filled += len(part)
    if made is None:
        made = np.empty((0, width or 0), dtype)
    if rows is not None and filled < rows:
        raise _wrong_rows(path, f"only {filled:,}", rows)
    made.resize((filled, made.shape[1]), refcheck=False)
    return made


def _capacity(path: Path, rows: int | None, width: int, first: int) -> int:
    """Rows to allocate; refuses a size that would fill the memory."""
    if rows is None:
        return first
    if rows * width > MAX_NUMBERS:
        raise UserError(
            f"{path} has {rows:,} rows of {width:,} numbers, at most {MAX_NUMBERS:,} numbers are "
            "read; write x.npy yourself (docs/usage.md, large graphs as arrays)"
        )
    return rows


def _wrong_rows(path: Path, found: str, rows: int) -> UserError:
    return UserError(
        f"{path} has {found} rows where num-node-list names {rows:,} nodes; put the whole file in"
    )


def _read_count(path: Path) -> int:
    counts = _read_matrix(path, whole_numbers, np.int64, width=1)
    if len(counts) != 1 or not 0 < counts[0, 0] < 1 << 31:
        raise UserError(f"{path} must hold the number of nodes of one graph, at most 2^31 - 1")
    return int(counts[0, 0])


def _check_nodes(nodes: NDArray[np.int64], num_nodes: int, path: Path) -> None:
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < num_nodes:
        wrong = int(nodes[(nodes < 0) | (nodes >= num_nodes)][0])
        raise UserError(f"{path} names the node {wrong}, but the nodes are 0..{num_nodes - 1}")


def _read_labels(path: Path, num_nodes: int) -> Tensor:
    def parse(text: bytes, where: str, line: int) -> Rows:
        return real_numbers(text.replace(b"nan", b"-1"), where, line)  # unlabelled

    labels = _read_matrix(path, parse, np.float32, num_nodes)
    if labels.shape[1] != 1:
        raise UserError(
            f"{path} has {labels.shape[1]} labels per node; one is classified, keep one"
        )
    if (labels != np.floor(labels)).any():
        raise UserError(f"{path} has a label that is no whole number; classes are numbered")
    return torch.from_numpy(labels[:, 0].astype(np.int64))


def _read_split(folder: Path, num_nodes: int) -> dict[str, Tensor]:
    """The masks of the only split; none without a split."""
    found = sorted(path for path in folder.glob("*") if _find(path, PARTS[0]))
    if not found:
        return {}
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(f"{folder} has several splits, {names}; keep one of them")
    masks = {}
    for mask, part in zip(MASKS, PARTS, strict=True):
        path = _needed(found[0], part)
        nodes = _read_matrix(path, whole_numbers, np.int64, width=1)
        _check_nodes(nodes, num_nodes, path)
        chosen = torch.zeros(num_nodes, dtype=torch.bool)
        masks[mask] = chosen.index_fill(0, torch.from_numpy(nodes[:, 0]), True)
    return masks

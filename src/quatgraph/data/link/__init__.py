"""Knowledge graphs for link prediction: datasets of the catalog, files, or random graphs.

Each source gives one :class:`Triples`.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from torch import Tensor

from quatgraph.data.edges import merge_edges
from quatgraph.data.formats import RDF_SUFFIXES, Reader, match_folder, select_reader
from quatgraph.data.io import store
from quatgraph.data.io.files import unpacked_suffix
from quatgraph.data.io.frame import FRAME_SUFFIXES
from quatgraph.data.link.entities import OWN_TABLE, EntitySource, add_entities
from quatgraph.data.link.features import Features, find_featured, pack_features, unpack_features
from quatgraph.data.link.generated import random_triples
from quatgraph.data.link.parts import read_parts
from quatgraph.data.link.queries import Queries, known, queries, with_inverses
from quatgraph.data.link.triples import Triples, assemble, statistics
from quatgraph.data.link.tsv import Unseen, from_names, read_entities, read_file, read_folder
from quatgraph.data.link.vocabulary import Vocabulary, read_labels
from quatgraph.data.splits import PARTS

__all__ = [
    "READERS",
    "EntitySource",
    "Features",
    "Queries",
    "Triples",
    "Vocabulary",
    "add_entities",
    "entity_graph",
    "find_featured",
    "from_names",
    "known",
    "load",
    "pack_features",
    "queries",
    "random_triples",
    "read",
    "read_entities",
    "statistics",
    "unpack_features",
    "with_inverses",
]

READERS = (
    Reader(
        "folder",
        "a folder with train.tsv (or .nt, .ttl), optional valid and test, entities.tsv (labels or "
        "features), relations.tsv",
        match_folder("link"),
        read_folder,
    ),
    Reader(
        "table",
        "a .tsv, .csv, .txt, .jsonl, .json or .parquet table of triples, also packed as .gz or .xz",
        lambda path: path.is_file() and unpacked_suffix(path) in FRAME_SUFFIXES,
        read_file,
    ),
    Reader(
        "rdf",
        "a .nt or .ttl file in N-Triples or Turtle, also packed (extra [rdf])",
        lambda path: path.is_file() and unpacked_suffix(path) in RDF_SUFFIXES,
        read_file,
    ),
)


def load(name: str) -> Triples:
    """Reads a dataset of the catalog and checks its statistics.

    Published triples stay, also those of valid and test with an entity that is in no training
    triple (FB15k-237 has some).

    Example:
        >>> load("countries")
        Triples('countries', 1536 entities, 13 relations, 3804 + 212 + 212 triples)
    """
    entry = store.entry(name, "link")
    triples = _load_sample(name) if entry.builtin else _load_published(entry)
    entry.compare(statistics(triples))
    return triples


def read(
    path: Path,
    *,
    header: bool | None = None,
    split_seed: int = 0,
    unseen: Unseen = "keep",
    columns: Mapping[str, str] = {},
    entities: EntitySource = OWN_TABLE,
) -> Triples:
    """Reads a knowledge graph in a format of :data:`READERS`.

    A triple that repeats in a file counts once; ``notes`` report this and what was inferred.

    Args:
        path: A file or a folder.
        header: Whether the first line of each file names its columns; inferred by default.
        split_seed: Seed of the splits that have no file.
        unseen: What to do with a triple of valid or test whose entity or relation is in no training
            triple: ``"keep"`` keeps it, ``"drop"`` leaves it out, ``"refuse"`` raises a
            :class:`UserError`.
        columns: Names of the columns ``head``, ``relation`` and ``tail``, where they have others.
        entities: Where the table of entities is; ``entities.csv`` of the folder by default.
    """
    path = Path(path)
    reader = select_reader("link", READERS, path)
    options = {"header": header, "split_seed": split_seed, "unseen": unseen, "columns": columns}
    return reader.read(path, entities=entities, **options)


def entity_graph(train: Tensor, num_entities: int) -> Tensor:
    """The edge list ``(2, E)`` of the undirected graph of the entities, without relations; see
    :func:`merge_edges`.

    Example:
        >>> import torch
        >>> entity_graph(torch.tensor([[0, 0, 1], [1, 3, 0], [2, 0, 2]]), 3)
        tensor([[0, 1],
                [1, 0]])
    """
    head, _, tail = train.numpy().T
    return merge_edges(head, tail, num_entities, directed=False)[0]


def _load_published(entry: store.Entry) -> Triples:
    paths = {PurePosixPath(file.path).stem: file.path for file in entry.files}
    contents = {
        part: (f"{paths[part]} of {entry.name}", store.read_bytes(entry.name, paths[part]))
        for part in (*PARTS, "valid_negatives", "test_negatives")
        if part in paths
    }
    parts = read_parts(contents, header=False)
    return assemble(parts, name=entry.name, **_published_labels(entry))


def _published_labels(entry: store.Entry) -> dict[str, dict[str, str]]:
    """Labels of entities and of relations, by id, as far as their files are present."""
    labels: dict[str, dict[str, str]] = {}
    for file in entry.files:
        match PurePosixPath(file.path).name:
            case "entity_labels.partial.tsv" if store.is_present(entry.name, file.path):
                content = store.read_bytes(entry.name, file.path)
                columns = ("id", "label", "source")
                labels["entity_labels"] = read_labels(content, file.path, columns)
            case "entity2wikidata.json":
                labels["entity_labels"] = _json_labels(store.read_bytes(entry.name, file.path))
            case "relations.en.json":
                labels["relation_labels"] = _json_labels(store.read_bytes(entry.name, file.path))
    return labels


def _json_labels(content: bytes) -> dict[str, str]:
    about = json.loads(content)
    return {name: label for name, one in about.items() if (label := one.get("label"))}


def _load_sample(name: str) -> Triples:
    files = {part: store.SAMPLES / f"{name}_{part}.tsv" for part in PARTS}
    contents = {part: (str(file), file.read_bytes()) for part, file in files.items()}
    return assemble(read_parts(contents, header=False), name=name)

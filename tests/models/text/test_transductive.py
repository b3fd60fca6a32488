"""TextGCN and TextSGC: against PyG and the formula, on the graph and folded into it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from benchmarks.measure import captured
from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data.text import CorpusGraph, Documents, append_nodes, from_list
from quatgraph.models.text import TextGCN, TextSGC
from quatgraph.models.text.transductive import CorpusModel
from quatgraph.tasks.graph.batches import Capacity, Collection, assemble
from quatgraph.tasks.text.problem import build_collection, document_nodes
from quatgraph.training.ensemble import Ensemble

CPU = torch.device("cpu")
RNG = np.random.default_rng(5)
TEXTS = [" ".join(f"w{k}" for k in RNG.integers(12, size=size)) for size in (7, 3, 25, 1, 9)]
DOCUMENTS = from_list(TEXTS)
WORDS, CLASSES, HIDDEN = len(DOCUMENTS.vocabulary), 3, 8
KINDS: list[type[CorpusModel]] = [TextGCN, TextSGC]
every_kind = pytest.mark.parametrize("kind", KINDS)


def built(kind: type[CorpusModel], device: torch.device = CPU, dropout: float = 0.0) -> Any:
    """A model in training, with random weights."""
    sizes = {"hidden_quats": HIDDEN // 4, "dropout": dropout} if kind is TextGCN else {}
    inputs = kind.Options(pmi_window=4, **sizes), DOCUMENTS.tokens, DOCUMENTS.ptr, WORDS
    fitted = kind.fit_documents(*inputs)
    model = kind.from_options(inputs[0], WORDS, CLASSES, **fitted).double()
    for value in model.parameters():
        nn.init.normal_(value)
    graph = kind.build_graph(*inputs)
    assert graph is not None
    model.graph = in_double(graph).to(device)
    return model


def in_double(graph: CorpusGraph) -> CorpusGraph:
    whole, documents = graph.adjacency, graph.documents
    return replace(
        graph,
        adjacency=whole.with_weight(whole.weight.double()),
        documents=documents.with_weight(documents.weight.double()),
    )


def as_double(whole: Collection) -> tuple[Codes, Adjacency, Adjacency]:
    """What a model takes for a collection."""
    assert isinstance(whole.features, Codes)
    pool = whole.pool.with_weight(whole.pool.weight.double())
    return whole.features.with_weight(whole.features.weight.double()), whole.adjacency, pool


def inputs_of(documents: Documents) -> tuple[Codes, Adjacency, Adjacency]:
    return as_double(build_collection(documents, None, CPU))


def trained(kind: type[CorpusModel]) -> Any:
    """A model after an evaluation, without the graph."""
    model = built(kind).eval()
    model(*inputs_of(document_nodes(DOCUMENTS)))
    model.graph = None
    return model


def test_text_gcn_is_two_layers_of_pygs_gcn():
    model = built(TextGCN)
    whole = model.graph.adjacency
    edges = torch.stack((whole.col, whole.receiver)).long()
    nodes, vectors = model.nodes, model.prediction.weight
    first = GCNConv(len(nodes), HIDDEN, bias=False, normalize=False).double()
    second = GCNConv(HIDDEN, CLASSES, bias=False, normalize=False).double()
    first.lin.weight.data, second.lin.weight.data = nodes.mT, vectors
    hidden = first(torch.eye(len(nodes), dtype=torch.double), edges, whole.weight).relu()
    expected = second(hidden, edges, whole.weight)[WORDS:]
    y = model(*inputs_of(document_nodes(DOCUMENTS)))
    torch.testing.assert_close(y, expected)
    ours = torch.autograd.grad(y.square().sum(), (nodes, vectors))
    theirs = torch.autograd.grad(expected.square().sum(), (first.lin.weight, second.lin.weight))
    torch.testing.assert_close(ours, (theirs[0].mT, theirs[1]))


def test_text_sgc_is_a_linear_map_of_scaled_rows_of_the_squared_matrix():
    model = built(TextSGC)
    dense = model.graph.adjacency.to_dense()
    rows = (dense @ dense)[WORDS:]
    features = rows / rows.amax(dim=0)
    expected = features @ model.nodes
    torch.testing.assert_close(
        model(*inputs_of(document_nodes(DOCUMENTS))), expected, rtol=1e-6, atol=1e-6
    )


def test_text_gcn_starts_as_glorot_and_text_sgc_at_zero():
    size = 50
    options = {"edge_weight": torch.ones(size), "degree": torch.ones(size)}
    gcn = TextGCN(30, CLASSES, hidden=16, **options)
    assert 0.9 * (6 / 66) ** 0.5 < gcn.nodes.abs().max() <= (6 / 66) ** 0.5
    assert not TextSGC(30, CLASSES, **options, scale=torch.ones(size)).nodes.any()


@every_kind
def test_a_document_of_the_corpus_is_the_same_without_the_graph(kind):
    model = built(kind).eval()
    expected = model(*inputs_of(document_nodes(DOCUMENTS)))
    model.graph = None
    nodes = append_nodes(replace(DOCUMENTS, corpus_index=torch.arange(len(DOCUMENTS))))
    folded = model(*inputs_of(nodes))
    torch.testing.assert_close(folded, expected, rtol=1e-6, atol=1e-6)


@every_kind
def test_a_new_document_is_folded_in_with_the_degrees_and_vectors_of_words(kind):
    model, words = trained(kind), ["w3", "w1", "w3", "w10"]
    new = from_list([" ".join(words), "unheard of"]).in_vocabulary(DOCUMENTS.vocabulary)
    places = [DOCUMENTS.vocabulary.index(word) for word in words]
    weight = model.edge_weight[places]  # one occurrence each
    degree = 1 + weight.sum()
    row = weight / (degree * model.degree[places]).sqrt()
    own = sum((r * model.table[p] for r, p in zip(row, places, strict=True)), start=0)
    own = own.relu() if kind is TextGCN else own
    vector = sum((r * model.words[p] for r, p in zip(row, places, strict=True)), start=own / degree)
    expected = model.prediction(vector) if kind is TextGCN else vector
    found = model(*inputs_of(new))
    torch.testing.assert_close(found[0], expected)
    assert torch.equal(found[1], torch.zeros(CLASSES, dtype=torch.double))


@every_kind
def test_only_an_evaluation_changes_the_vectors_of_words(kind):
    model, inputs = built(kind), inputs_of(document_nodes(DOCUMENTS))
    model.train()(*inputs)
    assert not model.words.any()
    model.eval()(*inputs)
    hidden = model.activate(model.graph.adjacency @ model.table)
    torch.testing.assert_close(model.words, hidden[:WORDS])
    assert not model.words.requires_grad


GRAPHS = torch.tensor([[2, 0, -1], [1, 4, 3], [3, 3, 0]])


def members(kind: type[CorpusModel], device: torch.device = CPU) -> tuple[Ensemble, Any]:
    """Three members, and the batch of their documents, some missing and some repeated."""
    ensemble = Ensemble([lambda: built(kind, device)] * 3, [0, 1, 2]).double().to(device)
    nodes = build_collection(document_nodes(DOCUMENTS), None, device)
    return ensemble, assemble(nodes, GRAPHS.to(device), Capacity(4))


def gradient(ensemble: Ensemble, batch: Any) -> tuple[Tensor, Tensor]:
    y = batch.through(ensemble, batch.features)
    return y, torch.autograd.grad(y.square().sum(), ensemble.flat)[0]


@every_kind
def test_members_on_documents_of_their_own_equal_single_models(kind):
    ensemble, batch = members(kind)
    y, flat = gradient(ensemble, batch)
    by_name = ensemble.stacked(ensemble.raw_state() | {"flat": flat})
    for m, graphs in enumerate(GRAPHS.tolist()):
        model = built(kind)
        model.load_state_dict(ensemble.member(m), strict=False)
        every = model(*inputs_of(document_nodes(DOCUMENTS)))
        own = torch.stack([every[g] if g >= 0 else 0 * every[0] for g in graphs])
        torch.testing.assert_close(y[m], own)
        names, values = zip(*model.named_parameters(), strict=True)
        grads = torch.autograd.grad(own.square().sum(), values)
        torch.testing.assert_close([by_name[name][m] for name in names], list(grads))


def test_dropout_of_text_gcn_acts_in_training_alone():
    model, inputs = built(TextGCN, dropout=0.5), inputs_of(document_nodes(DOCUMENTS))
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


def test_members_share_one_graph():
    first, second = built(TextGCN), built(TextGCN)
    second.graph = first.graph
    ensemble = Ensemble([lambda: first, lambda: second], [0, 1])
    assert ensemble._template.module.graph is first.graph
    assert not any("graph" in name for name in ensemble.stacked())


@pytest.mark.gpu
@every_kind
def test_a_captured_step_on_a_gpu_gives_what_the_cpu_gives(kind):
    (ours, batch), (theirs, on_cpu) = members(kind, torch.device("cuda")), members(kind)
    found: list[Tensor] = []  # at last what a replay writes
    replay = captured(lambda: found.append(gradient(ours, batch)[1]))
    for ensemble in (ours, theirs):
        with torch.no_grad():
            ensemble.flat.mul_(0.5)
    replay()
    torch.testing.assert_close(found[-1].cpu(), gradient(theirs, on_cpu)[1])

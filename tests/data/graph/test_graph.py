"""Graphs for graph classification: the catalog's and one's own."""

import json

import pytest
import torch
from sklearn.model_selection import StratifiedKFold
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from quatgraph.data import graph
from quatgraph.data.graph import Graphs, from_list, load, read, statistics
from quatgraph.data.io import store
from quatgraph.data.io.numbers import whole_numbers
from quatgraph.errors import UserError

SIZES = {  # graphs of each class, in the order of the labels
    "mutag": [63, 125],
    "ptc": [192, 152],
    "proteins": [663, 450],
    "dd": [691, 487],
    "imdb-b": [500, 500],
    "imdb-m": [500, 500, 500],
    "collab": [2600, 775, 1625],
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))


def assert_sound(graphs: Graphs) -> None:
    """Whatever the source: edges within graphs, sorted, once, in both directions, no loops."""
    sender, receiver = graphs.edge_index
    key = sender * graphs.num_nodes + receiver
    assert bool((key.diff() > 0).all())
    assert bool((sender != receiver).all())
    assert torch.equal((receiver * graphs.num_nodes + sender).sort().values, key)
    home = torch.arange(len(graphs)).repeat_interleave(graphs.node_ptr.diff())
    assert torch.equal(home[sender], home[receiver])
    counts = torch.bincount(home[sender], minlength=len(graphs))
    assert torch.equal(counts, graphs.edge_ptr.diff())
    assert graphs.tags.unique().tolist() == list(range(graphs.num_tags))


def assert_published(name: str) -> Graphs:
    """A dataset of the catalog: counts, cache, published folds, scikit-learn's folds."""
    first, again = load(name), load(name)
    assert again.digest == first.digest
    assert torch.equal(again.edge_index, first.edge_index)
    assert torch.equal(again.tags, first.tags)
    assert first.y.bincount().tolist() == SIZES[name]
    assert_sound(first)
    published = graph.fixed_folds(name)
    tested = torch.cat([test for _, test in published])
    assert tested.unique().numel() == tested.numel() == len(first) // 10 * 10
    peer = StratifiedKFold(10, shuffle=True, random_state=0).split(first.y, first.y)
    for (train, test), (theirs, apart) in zip(graph.stratified_folds(first.y), peer, strict=True):
        assert train.tolist() == theirs.tolist()
        assert test.tolist() == apart.tolist()
    return first


@pytest.mark.realdata
@pytest.mark.parametrize("name", [name for name in SIZES if name != "collab"])
def test_a_published_dataset_is_what_the_catalog_says(name):
    graphs = assert_published(name)
    if name.startswith("imdb"):
        social = graphs.with_degrees_as_tags()
        names = torch.tensor([int(name) for name in social.tag_names])
        assert torch.equal(names[social.tags], graphs.degrees)
        assert social.num_tags > 10


@pytest.mark.realdata
def test_collab_is_what_the_catalog_says_less_its_self_loops():
    graphs = assert_published("collab")
    rows = whole_numbers(store.read_bytes("collab", "COLLAB.txt"), "COLLAB.txt")
    neighbours = rows.values.size - 1 - 2 * len(graphs) - 2 * graphs.num_nodes
    assert neighbours - graphs.edge_index.size(1) == 2837


def test_the_sample_is_cycles_against_trees():
    graphs = load("cycles")
    assert_sound(graphs)
    assert graphs.digest == load("cycles").digest
    for one in graphs.to_data_list():
        edges = one.edge_index.size(1) // 2
        reached = torch.zeros(one.num_nodes, dtype=torch.bool)
        reached[0] = True
        for _ in range(one.num_nodes):
            reached[one.edge_index[1, reached[one.edge_index[0]]]] = True
        assert bool(reached.all())
        if graphs.label_names[int(one.y)] == "cycle":
            assert edges == one.num_nodes
            assert one.edge_index[0].bincount().tolist() == [2] * one.num_nodes
        else:
            assert edges == one.num_nodes - 1
    assert graphs.y.bincount().tolist() == [100, 100]


def test_a_dataset_of_another_task_is_refused():
    with pytest.raises(UserError, match="'cora' is a dataset of the task 'node'"):
        load("cora")
    with pytest.raises(UserError, match="no dataset 'mutga'; did you mean 'mutag'"):
        load("mutga")


def test_a_dataset_that_is_not_what_the_catalog_says_is_refused(monkeypatch):
    entry = store.entry("cycles")
    statistics = {**entry.statistics, "edges": 7}
    changed = store.Entry(
        **{key: getattr(entry, key) for key in entry.__slots__ if key != "statistics"},
        statistics=statistics,
    )
    monkeypatch.setattr(store, "catalog", lambda: {"cycles": changed})
    with pytest.raises(UserError, match="cycles has 1790 edges where the catalog expects 7"):
        load("cycles")


@pytest.mark.realdata
def test_a_damaged_cache_is_read_anew_and_mended(tmp_path):
    whole = load("mutag").digest
    (kept,) = (tmp_path / "cache/graph").glob("*.safetensors")
    good = kept.read_bytes()
    kept.write_bytes(good[:-40] + bytes(40))
    assert load("mutag").digest == whole
    assert kept.read_bytes() == good


@pytest.mark.realdata
def test_once_read_a_dataset_needs_its_file_no_more(monkeypatch):
    whole = load("mutag").digest
    monkeypatch.setattr(store, "read_bytes", lambda *names: pytest.fail("the text was read again"))
    assert load("mutag").digest == whole


def test_graphs_are_read_by_their_format(tmp_path):
    lines = [{"edges": [[0, 1]], "label": "a"}, {"edges": [[0, 1], [1, 2]], "label": "b"}]
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "g.txt").write_text("2\n2 0\n0 1 1\n0 0\n3 1\n0 1 1\n0 1 2\n0 0\n")
    (tmp_path / "G").mkdir()
    for key, text in (
        ("A", "1,2\n3,4\n4,5\n"),
        ("graph_indicator", "1\n1\n2\n2\n2\n"),
        ("graph_labels", "0\n1\n"),
    ):
        (tmp_path / "G" / f"G_{key}.txt").write_text(text)
    found = [read(tmp_path / name) for name in ("g.jsonl", "g.txt", "G")]
    for graphs in found:
        assert_sound(graphs)
        assert torch.equal(graphs.edge_index, found[0].edge_index)
        assert graphs.y.tolist() == [0, 1]
    assert found[1].digest == found[2].digest != found[0].digest
    (tmp_path / "g.txt").write_text("1\n1 0\n0 0\n")
    with pytest.raises(UserError, match="have the class '0'"):
        read(tmp_path / "g.txt")
    assert len(read(tmp_path / "g.txt", labels_needed=False)) == 1


def test_what_is_no_graphs_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"there is no .*nowhere"):
        read(tmp_path / "nowhere")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(UserError, match=r"a\.csv is not graph data: the task graph reads a"):
        read(tmp_path / "a.csv")
    with pytest.raises(UserError, match=r"has no file NAME_A\.txt"):
        read(tmp_path)


def pair(**more: object) -> Data:
    given = {"edge_index": torch.tensor([[0], [1]]), "num_nodes": 2, "y": 0}
    return Data(**given | more)


def test_a_list_of_pyg_graphs_comes_back_as_it_was():
    graphs = load("cycles").with_degrees_as_tags()
    again = from_list(graphs.to_data_list())
    for key in ("node_ptr", "edge_ptr", "edge_index", "tags", "y"):
        assert torch.equal(getattr(again, key), getattr(graphs, key))
    assert all(is_undirected(one.edge_index) for one in again.to_data_list())


def test_a_list_may_have_features_unknown_classes_and_any_numbers():
    x = torch.tensor([[1.0], [2.0]])
    ys = [7, torch.tensor(3), torch.tensor([-1]), None]
    graphs = from_list([pair(x=x, y=y, num_nodes=None) for y in ys])
    assert graphs.y.tolist() == [1, 0, -1, -1]
    assert graphs.label_names == ["3", "7"]
    assert graphs.attributes.tolist() == [[1.0], [2.0]] * 4
    assert graphs.edge_index.tolist()[0] == list(range(8))
    assert statistics(graphs) == {
        "graphs": 4,
        "labelled": 2,
        "nodes": 8,
        "edges": 4,
        "tags": 1,
        "features": 1,
        "classes": 2,
    }


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([], "the list has no graphs"),
        ([pair(), pair()], "all labelled graphs in the list have the class '0'"),
        ([pair(y=None)], "no graph in the list has a label"),
        ([pair(), pair(num_nodes=None)], "graphs\\[1\\] has no nodes"),
        ([pair(), pair(num_nodes=1)], "names the node 1 but the nodes are 0"),
        ([pair(num_nodes=2**31)], "data has 2,147,483,648 nodes; take fewer graphs"),
        ([pair(edge_index=None)], r"graphs\[0\].edge_index must be"),
        ([pair(edge_index=torch.zeros(2, 3))], r"graphs\[0\].edge_index must be"),
        ([pair(y=torch.tensor([0.5]))], r"graphs\[0\].y must be one whole number"),
        ([pair(y=torch.tensor([0, 1]))], r"graphs\[0\].y must be one whole number"),
        ([pair(y=-2)], r"graphs\[0\].y must be one whole number"),
        ([pair(x=torch.ones(2, 1)), pair()], "graphs\\[1\\] has no x"),
        ([pair(), pair(tag=torch.tensor([0, 0]))], "graphs\\[0\\] has no tag"),
        ([pair(tag=torch.tensor([0.5, 0]))], r"graphs\[0\].tag must be"),
        ([pair(x=torch.ones(2, 1)), pair(x=torch.ones(2, 2))], r"graphs\[1\].x has 2 features"),
        ([pair(x=torch.ones(2))], r"graphs\[0\].x must be a tensor of real numbers"),
        ([pair(x=torch.tensor([[1.0], [torch.nan]]))], r"graphs\[0\].x\[1, 0\] is not a finite"),
    ],
)
def test_a_list_that_is_no_collection_is_refused(graphs, words):
    with pytest.raises(UserError, match=words):
        from_list(graphs)


def test_labels_that_are_none_matter_for_training_only():
    graphs = [pair(y=torch.tensor([0.5])), pair(y=1)]
    with pytest.raises(UserError, match=r"graphs\[0\].y must be one whole number"):
        from_list(graphs)
    assert from_list(graphs, labels_needed=False).y.tolist() == [-1, 0]

"""What a node starts from, in training and in new graphs."""

import json
from pathlib import Path

import pytest
import torch
from rings import collection, lines, with_features, without, written
from torch_geometric.data import Data

from quatgraph.codes import Codes
from quatgraph.data.graph import Graphs, from_list, read
from quatgraph.errors import UserError
from quatgraph.tasks.graph.features import NodeFeatures


@pytest.fixture
def tagged(tmp_path: Path) -> Graphs:
    return collection(tmp_path)


@pytest.fixture
def plain(tmp_path: Path) -> Graphs:
    return collection(tmp_path, without(lines(), "node_labels"))


def star(leaves: int) -> Data:
    edges = torch.stack((torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)))
    return Data(edge_index=edges, num_nodes=leaves + 1)


def stars(*leaves: int) -> Graphs:
    return from_list([star(count) for count in leaves], labels_needed=False)


def test_tags_are_coded_where_nodes_differ_in_them_and_degrees_elsewhere(
    tagged: Graphs, plain: Graphs
) -> None:
    assert NodeFeatures.fit(tagged, "auto") == NodeFeatures("tags", ("C", "N", "O"), None)
    assert NodeFeatures.fit(plain, "auto") == NodeFeatures("degrees", ("1", "2"), None)
    assert NodeFeatures.fit(tagged, "degrees").kind == "degrees"
    assert NodeFeatures.fit(plain, "tags") == NodeFeatures("tags", ("0",), None)


def test_the_code_of_a_node_is_the_place_of_its_tag(tagged: Graphs) -> None:
    features = NodeFeatures.fit(tagged, "tags").of(tagged)
    assert isinstance(features, Codes)
    assert features.shape == (tagged.num_nodes, 3)
    expected = ["CNO".index(tag) for line in lines() for tag in line["node_labels"]]
    assert features.code.tolist() == expected
    assert features.code.dtype == torch.int32
    assert torch.equal(features.weight, torch.ones(tagged.num_nodes))


def test_tags_keep_their_codes_in_graphs_that_list_them_otherwise(tagged: Graphs) -> None:
    kind = NodeFeatures("tags", ["O", "C"], None)
    one_hot = kind.of(tagged) @ torch.eye(2)
    for row, tag in zip(one_hot.tolist(), tagged.tags.tolist(), strict=True):
        assert row == {"C": [0, 1], "N": [0, 0], "O": [1, 0]}[tagged.tag_names[tag]]
    assert kind.unknown(tagged) == ["N"]
    # Tags that no node has are not reported.
    assert kind.unknown(tagged.select([1]).select([])) == []


@pytest.mark.parametrize(
    ("degree", "taken"), [(0, 1), (1, 1), (2, 1), (3, 3), (4, 3), (6, 8), (7, 8), (8, 8), (50, 8)]
)
def test_a_degree_counts_as_the_nearest_that_training_saw(degree: int, taken: int) -> None:
    seen = [1, 3, 8]
    features = NodeFeatures("degrees", [str(known) for known in seen], None)
    graphs = from_list(
        [Data(edge_index=torch.empty(2, 0).long(), num_nodes=1)], labels_needed=False
    )
    graphs = stars(degree) if degree else graphs
    coded = features.of(graphs)
    assert isinstance(coded, Codes)
    hub = seen[int(coded.code[0])]
    # Between two that are as near, either is right.
    assert abs(hub - degree) == abs(taken - degree)
    assert torch.equal(coded.weight, torch.ones(graphs.num_nodes))


def test_degrees_that_training_never_saw_are_named(plain: Graphs) -> None:
    features = NodeFeatures.fit(plain, "degrees")
    assert features.unknown(stars(2, 4, 7, 4)) == ["4", "7"]
    assert features.unknown(plain) == []


def test_attributes_stand_beside_the_codes_standardised(tmp_path: Path) -> None:
    graphs = collection(tmp_path, with_features(lines()))
    features = NodeFeatures.fit(graphs, "auto")
    matrix = features.of(graphs)
    assert isinstance(matrix, torch.Tensor)
    assert torch.equal(matrix[:, :3], torch.nn.functional.one_hot(graphs.tags).float())
    torch.testing.assert_close(matrix[:, 3:].mean(dim=0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(matrix[:, 3:].std(dim=0, correction=0), torch.ones(2))
    # Some of the graphs get the same numbers as among all of them.
    some = features.of(graphs.select([4, 2]))
    start = graphs.node_ptr.tolist()
    assert torch.equal(some, torch.cat((matrix[start[4] : start[5]], matrix[start[2] : start[3]])))


def test_attributes_must_be_there_as_they_were_in_training(tmp_path: Path, tagged: Graphs) -> None:
    with_numbers = collection(tmp_path, with_features(lines()))
    with pytest.raises(UserError, match=r"have some node attributes, but .* trained with no node"):
        NodeFeatures.fit(tagged, "auto").of(with_numbers)
    with pytest.raises(UserError, match=r"have no node attributes, but .* trained with some node"):
        NodeFeatures.fit(with_numbers, "auto").of(tagged)


@pytest.mark.parametrize("numbers", [False, True])
def test_features_come_back_from_a_card(numbers: bool, tmp_path: Path) -> None:
    graphs = collection(tmp_path, with_features(lines()) if numbers else lines())
    features = NodeFeatures.fit(graphs, "auto")
    assert NodeFeatures.from_dict(json.loads(json.dumps(features.to_dict()))) == features


def test_a_collection_knows_whether_its_nodes_came_with_tags(tmp_path: Path) -> None:
    tagged, plain = lines(), without(lines(), "node_labels")
    paths = [written(tmp_path / f"{n}.jsonl", g) for n, g in enumerate((tagged, plain))]
    assert [read(path).tagged for path in paths] == [True, False]
    assert read(paths[1]).with_degrees_as_tags().tagged
    assert not read(paths[1]).select([0]).tagged

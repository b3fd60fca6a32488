"""The columns of ``edges.csv``: by name, by place where that is sure, or refused."""

from pathlib import Path

import pytest
from commands import assert_user_error, call

from quatgraph.data.node import read as read_folder
from quatgraph.errors import UserError

NUMBERED = "id,label,split\n" + "".join(
    f"{k},{'xy'[k % 2]},{('train', 'train', 'valid', 'test')[k % 4]}\n" for k in range(100)
)
NAMED = "id,label,split\na,x,train\nb,y,train\nc,x,valid\nd,y,test\nu,x,\nv,y,\n"


def folder(path: Path, edges: str, nodes: str = NUMBERED) -> Path:
    (path / "nodes.csv").write_text(nodes)
    (path / "edges.csv").write_text(edges)
    return path


def edges_of(path: Path) -> list[tuple[str, str, float | None]]:
    """The edges by the names of their nodes, with their weights."""
    data = read_folder(path, directed=True)
    weights = data.get("edge_weight")
    return [
        (data.node_ids[s], data.node_ids[t], None if weights is None else float(weights[place]))
        for place, (s, t) in enumerate(data.edge_index.T.tolist())
    ]


def note_of(path: Path) -> str:
    (note,) = read_folder(path).notes
    return note.replace(str(path / "edges.csv"), "F")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("id,source,target", "0,80,42"),
        ("weight,source,target", "7,80,42"),
        ("target,when,source", "42,2020,80"),
        ("Source,TARGET,id,kind", "80,42,1,x"),
        ("to,from,id", "42,80,1"),
        ("src\tdst\tid", "80\t42\t1"),
        ("id;head;tail", "1;80;42"),
        ("v,u", "42,80"),
        ("receiver,sender", "42,80"),
        ("source_id,target_id", "80,42"),
        ('"source","target"', '"80","42"'),
    ],
)
def test_columns_are_read_by_name_in_any_order(header: str, row: str, tmp_path: Path) -> None:
    weighed = "weight" in header
    assert edges_of(folder(tmp_path, f"{header}\n{row}\n")) == [
        ("80", "42", 7.0 if weighed else None)
    ]


@pytest.mark.parametrize("name", ["weight", "Edge_Weight"])
def test_weights_are_read_from_the_column_of_that_name(name: str, tmp_path: Path) -> None:
    path = folder(tmp_path, f"when,{name},target,source\n2020,2.5,42,80\n")
    assert edges_of(path) == [("80", "42", 2.5)]
    assert note_of(path) == (
        f"the columns of F are read by name: 'source' as source, 'target' as target, {name!r} as "
        "weight; not used: 'when'"
    )


def test_two_columns_of_other_names_are_read_by_place_with_a_note(tmp_path: Path) -> None:
    path = folder(tmp_path, "citing,cited\n80,42\n")
    assert edges_of(path) == [("80", "42", None)]
    assert note_of(path) == (
        "the first line of F is read as column names because it names no node: 'citing' as source, "
        "'cited' as target"
    )


def test_without_names_the_third_column_is_the_weight_and_a_note_says_so(tmp_path: Path) -> None:
    path = folder(tmp_path, "80,42\n")
    assert edges_of(path) == [("80", "42", None)]
    assert read_folder(path).notes == []
    path = folder(tmp_path, "80,42,3\n")
    assert edges_of(path) == [("80", "42", 3.0)]
    assert note_of(path) == "F has no column names; its third column is read as weight"


def test_a_first_line_of_two_nodes_is_an_edge_unless_another_column_says_otherwise(
    tmp_path: Path,
) -> None:
    path = folder(tmp_path, "u,v\na,b\n", NAMED)
    assert edges_of(path) == [("a", "b", None), ("u", "v", None)]
    assert note_of(path) == (
        "the first line of F is read as an edge because 'u' and 'v' are nodes; rename the "
        "columns if it names them"
    )
    assert edges_of(folder(tmp_path, "u,v,weight\na,b,2\n", NAMED)) == [("a", "b", 2.0)]
    assert edges_of(folder(tmp_path, "u,v,kind\na,b,x\n", NAMED)) == [("a", "b", None)]
    both = [("a", "b", 2.0), ("u", "v", 1.0)]
    assert edges_of(folder(tmp_path, "u,v,1\na,b,2\n", NAMED)) == both


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ("source,from,target\n1,2,3\n", "names the source twice, as 'source' and 'from'; rename"),
        ("source,target,weight,Weight\n1,2,3,4\n", "names the weight twice, as 'weight' and 'We"),
        ("source,target,source_id\n1,2,3\n", "names the source twice"),
        ("to,source\n1,2\n", "'source' and 'to', which are no pair; call them source and target"),
        ("node,other,since\n1,2,3\n", "'since', which is no edge; name the columns source, target"),
        ("source,cited\n1,2\n", "is 'source', 'cited', which is no edge; name the columns"),
        ("source,weight\n1,2\n", "is 'source', 'weight', which is no edge; name the columns"),
        ("0,80,42,1\n", "has 4 columns and no first line that names them; name the"),
        ("a,b,c,d\n", "is 'a', 'b', 'c', 'd', which is no edge; name the columns"),
        ("100,200\n1,2\n", "line 1 has an edge to the unknown node '100'"),
        ("1,2,friend\n", "line 1 has 'friend' in column 'weight'"),
        ("id,source,target\n0,80,420\n", "line 2 has an edge to the unknown node '420'"),
        ("id,weight,source,target\n0,heavy,80,42\n", "line 2 has 'heavy' in column 'weight'"),
        ("id,weight,source,target\n0,-1,80,42\n", "line 2 has the negative weight -1"),
    ],
)
def test_what_may_mean_two_things_is_refused(edges: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as result:
        read_folder(folder(tmp_path, edges))
    assert words in str(result.value)
    assert str(tmp_path / "edges.csv") in str(result.value)


def test_the_command_line_shows_what_was_inferred_once_on_standard_error(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k},{(k + 1) % 100}\n" for k in range(100))
    path = folder(tmp_path, f"id,source,target\n{rows}")
    note = (
        f"quatgraph: the columns of {path / 'edges.csv'} are read by name: 'source' as source, "
        "'target' as target; not used: 'id'\n"
    )
    counted = call("data", "stats", str(path))
    assert (counted.exit_code, counted.stderr) == (0, note)
    assert "edges     100\n" in counted.stdout
    out = str(tmp_path / "model")
    small = ["--set", "train.epochs=2", "--set", "train.lr=0.1", "--device", "cpu"]
    trained = call("train", "node", "--data", str(path), "--out", out, *small)
    assert (trained.exit_code, trained.stderr) == (0, note)
    again = call("predict", out, str(path), "--node", "7")
    assert (again.exit_code, again.stderr) == (0, note)
    assert call("predict", out, "--node", "7").stderr == ""
    folder(path, "id,from,target\n0,1,2\n")
    assert_user_error(call("data", "stats", str(path)), "are no pair")

"""Presets: the published numbers, each with its origin, under both protocols."""

import dataclasses
import math
import re
from pathlib import Path

import pytest

from quatgraph import config as configs
from quatgraph import presets
from quatgraph.data.io.store import catalog
from quatgraph.errors import UserError
from quatgraph.models.link.simqgnn import EntityGraphOptions
from quatgraph.models.node import MODELS
from quatgraph.presets import names, parts, preset, protocols
from quatgraph.tasks import TASKS
from quatgraph.tasks.ensembles import group_by_shape
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.task import Member
from quatgraph.tasks.text.config import TextConfig
from quatgraph.training.schedule import Plateau

FOLDER = Path(presets.__file__).parent
FILES = sorted(FOLDER.glob("*/*.toml"))
PUBLISHED = [name for name in names("node") if not name.startswith("node/karate")]


def built(name: str, protocol: presets.Protocol) -> NodeConfig:
    return configs.build(NodeConfig, preset(name, protocol))


def test_every_file_is_a_preset() -> None:
    assert names() == [f"{path.parent.name}/{path.stem}" for path in FILES]
    assert [len(names(task)) for task in ("node", "link", "text")] == [32, 66, 4 * 9 + 1]
    assert set(names()) == {name for task in TASKS for name in names(task)}


@pytest.mark.parametrize("protocol", ["paper", "honest"])
@pytest.mark.parametrize("name", names())
def test_every_preset_builds_a_config_under_both_protocols(
    name: str, protocol: presets.Protocol
) -> None:
    config = TASKS[name.split("/")[0]].config
    assert configs.build(config, preset(name, protocol)).protocol == protocol


@pytest.mark.parametrize("name", names("node"))
def test_a_preset_is_named_by_its_dataset_and_method(name: str) -> None:
    config = built(name, "paper")
    task, dataset, method = parts(name)
    assert name == f"{task}/{dataset}-{method}"
    assert dataset == config.data.name
    assert dataset in catalog()
    assert f"{method}-".startswith(f"{config.model.name}-")
    assert config.model.name in MODELS


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_value_says_where_it_is_from(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if re.match(r"[\w.\"-]+ *=", line)]
    assert len(lines) >= 6
    for line in lines:
        if not line.startswith("name ="):
            assert re.search(r"# *\w+", line), f"{line!r} has no origin"


@pytest.mark.parametrize(
    ("dataset", "hidden_quats", "lr", "epochs"),
    [("cora", 4, 0.05, 100), ("citeseer", 4, 0.05, 100), ("pubmed", 16, 0.1, 200)],
)
def test_the_paper_protocol_says_the_numbers_of_section_5_2(
    dataset: str, hidden_quats: int, lr: float, epochs: int
) -> None:
    for method, weight_decay in (("qgnn", 5e-4), ("gcn", 5e-6), ("gcn-matched", 5e-4)):
        config = built(f"node/{dataset}-{method}", "paper")
        assert config.model.hidden_quats == hidden_quats
        assert config.model.num_layers == 1
        assert (config.model.skip, config.model.bias) == (False, False)
        assert config.model.normalization == "symmetric"
        assert config.train.lr == lr
        assert config.train.epochs == epochs
        assert config.train.select == "last"
        assert config.train.weight_decay == weight_decay
    assert built(f"node/{dataset}-qgnn", "paper").model.masks == "real"


@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed"])
def test_hgcn_has_the_width_and_the_training_of_section_5_2_and_two_hops_are_a_layer_more(
    dataset: str,
) -> None:
    hgcn, two, qgnn = (
        configs.flatten(built(f"node/{dataset}-{method}", "paper").identity())
        for method in ("hgcn", "hgcn-two-hops", "qgnn")
    )
    assert [key for key in hgcn if hgcn[key] != two[key]] == ["model.num_layers"]
    same = ["model.hidden_quats", "train.epochs", "train.lr", "train.select"]
    assert [hgcn[key] for key in same] == [qgnn[key] for key in same]


@pytest.mark.parametrize(
    ("dataset", "alpha", "decay"),
    [("cora", 0.2, 1e-4), ("citeseer", 0.5, 5e-6), ("pubmed", 0.1, 5e-6)],
)
def test_gcnii_has_its_authors_settings_for_these_splits_and_deep_qgnn_their_training(
    dataset: str, alpha: float, decay: float
) -> None:
    gcnii, ours = (built(f"node/{dataset}-{method}", "paper") for method in ("gcnii", "deep-qgnn"))
    assert (gcnii.model.width, gcnii.model.num_layers) == (64, 64)
    assert ours.train == gcnii.train
    for config in (gcnii, ours):
        assert (config.model.alpha, config.model.theta, config.model.dropout) == (alpha, 0.5, 0.5)
        assert (config.train.lr, config.train.weight_decay) == (0.01, decay)
        assert config.model.weight_decays == {}


def test_gcn_matched_differs_from_gcn_in_weight_decay_alone() -> None:
    for dataset in ("cora", "citeseer", "pubmed"):
        gcn, matched = (
            configs.flatten(built(f"node/{dataset}-{method}", "paper").identity())
            for method in ("gcn", "gcn-matched")
        )
        assert [key for key in gcn if gcn[key] != matched[key]] == ["train.weight_decay"]


def test_qgnn_with_a_normalised_adjacency_differs_from_qgnn_in_that_alone() -> None:
    normalised = [name for name in names("graph") if name.endswith("-qgnn-symmetric")]
    assert len(normalised) == 7
    for name in normalised:
        qgnn = configs.flatten(preset(name.removesuffix("-symmetric"), "paper"))
        same = {**qgnn, "model.normalization": "symmetric"}
        assert configs.flatten(preset(name, "paper")) == same != qgnn


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_paper_protocol_never_uses_validation_data(name: str) -> None:
    assert built(name, "paper").train.select == "last"


@pytest.mark.parametrize("name", names("node"))
def test_the_honest_protocol_selects_on_validation_data_for_all_alike(name: str) -> None:
    honest = built(name, "honest")
    assert honest.train.select == "best-valid"
    changed = configs.flatten(protocols("node")["honest"])
    flat = configs.flatten(honest.identity())
    assert {key: flat[key] for key in changed} == changed


@pytest.mark.parametrize("name", names("node"))
def test_the_honest_protocol_changes_only_what_protocols_toml_says(name: str) -> None:
    paper, honest = (configs.flatten(built(name, p).identity()) for p in ("paper", "honest"))
    rules = protocols("node")
    of_model = rules["honest-models"].get(paper["model.name"], {})
    changed = configs.flatten(rules["honest"]).keys() | {f"model.{key}" for key in of_model}
    changed |= {"protocol"}
    assert {key for key in paper if paper[key] != honest[key]} <= changed


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("which", ["grid", "own"])
def test_the_lists_of_a_search_are_of_settings_that_exist(task: str, which: str) -> None:
    grid, config = protocols(task)[which], TASKS[task].config
    default = configs.to_dict(config())
    assert set(configs.grid_keys(grid)) <= configs.flatten(default).keys()
    points = [configs.build(config, made) for made in configs.expand_grid(default, grid)]
    assert len({configs.digest(point) for point in points}) == len(points) > 1


def linked(name: str) -> LinkConfig:
    return configs.build(LinkConfig, preset(f"link/{name}"))


@pytest.mark.parametrize("name", names("link"))
def test_a_preset_of_link_chooses_on_validation_data_and_honest_changes_nothing(name: str) -> None:
    paper, honest = (configs.build(LinkConfig, preset(name, p)) for p in ("paper", "honest"))
    assert paper.train.select == "best-valid"
    assert dataclasses.replace(honest, protocol="paper") == paper
    task, dataset, method = parts(name)
    assert name == f"{task}/{dataset}-{method}"
    assert catalog()[dataset].task == "link"
    kind = paper.model.decoder if paper.model.name == "embeddings" else paper.model.name
    assert method.removesuffix("-rp").removesuffix("-n3") == kind
    assert ("-n3" in method) == (paper.train.n3 > 0)
    assert method.endswith("-rp") == (paper.train.relation_weight > 0)


@pytest.mark.parametrize(
    ("dataset", "lr", "epochs", "every"),
    [("codex-s", 0.01, 4000, 1), ("codex-m", 0.005, 4000, 1), ("codex-l", 1e-4, 2000, 5)],
)
def test_the_presets_of_table_3_say_the_numbers_of_section_5_3_and_of_the_released_code(
    dataset: str, lr: float, epochs: int, every: int
) -> None:
    for method in ("simqgnn", "simrgcn", "distmult", "quate"):
        config = linked(f"{dataset}-{method}")
        train, model = config.train, config.model
        assert (train.lr, train.epochs, train.evaluate_every) == (lr, epochs, every)
        assert (train.batch_size, train.clip, train.monitor) == (1024, 0.5, "hits@10")
        assert (train.loss, train.smoothing, train.floor) == ("bce", 0.1, "uniform")
        assert (model.dim_quats, model.dropout, model.norm) == (32, 0.5, True)
        if isinstance(model, EntityGraphOptions):
            assert (model.num_layers, model.normalization, model.activation) == (1, "row", "tanh")
        assert config.data.reciprocal
    n3 = linked(f"{dataset}-complex-n3")
    assert (4 * n3.model.dim_quats, n3.model.norm, n3.model.dropout) == (2000, False, 0.0)
    assert (n3.train.loss, n3.train.clip, n3.train.monitor) == ("softmax", None, "mrr")


@pytest.mark.parametrize(
    ("name", "width", "optimizer", "lr", "loss", "dropout", "plateau", "patience"),
    [
        ("codex-s-complex", 512, "adam", 3.386e-4, "softmax", (0.079, 0.056), 7, 10),
        ("codex-m-complex", 512, "adagrad", 0.2557, "kvsall", (0.12, 0.36), 6, 10),
        ("codex-l-complex", 128, "adagrad", 0.2651, "softmax", (0, 0), 7, 5),
        ("codex-s-conve", 288, "adagrad", 0.01165, "softmax", (0, 0), 3, 10),
        ("codex-m-conve", 512, "adagrad", 0.00243, "softmax", (0, 0.035), 9, 5),
        ("codex-l-conve", 288, "adagrad", 0.03293, "softmax", (0.006, 0), 1, 5),
        ("codex-s-tucker", 512, "adagrad", 0.01447, "kvsall", (0.19, 0), 1, 10),
        ("codex-m-tucker", 512, "adagrad", 0.01447, "kvsall", (0.19, 0), 1, 5),
        ("codex-l-tucker", 256, "adagrad", 0.01958, "softmax", (0.161, 0.086), 4, 5),
        ("codex-s-rescal", 512, "adagrad", 0.04523, "softmax", (0, 0.08), 7, 10),
        ("codex-m-rescal", 256, "adagrad", 0.06949, "softmax", (0, 0), 8, 5),
        ("codex-l-rescal", 128, "adagrad", 0.2651, "softmax", (0, 0), 7, 5),
    ],
)
def test_the_presets_after_safavi_and_koutra_say_the_numbers_of_their_files(
    name: str,
    width: int,
    optimizer: str,
    lr: float,
    loss: str,
    dropout: tuple[float, float],
    plateau: int,
    patience: int,
) -> None:
    config = linked(name)
    train, model = config.train, config.model
    assert (model.width, train.optimizer, train.lr, train.loss) == (width, optimizer, lr, loss)
    assert (model.entity_dropout, model.relation_dropout) == dropout
    assert (train.plateau, train.patience) == (Plateau(0.95, plateau), patience)
    assert (train.epochs, train.evaluate_every, train.monitor) == (400, 5, "mrr")
    assert train.clip is None
    assert config.data.reciprocal
    if loss == "kvsall":
        smoothing = {"complex": 0.208, "tucker": 0.095}[name.split("-")[2]]
        assert (train.smoothing, train.floor) == (smoothing, "uniform")


def test_the_search_of_link_is_the_papers() -> None:
    assert math.prod(len(tried) for tried in protocols("link")["grid"].values()) == 4 * 3 * 5


def of_texts(name: str) -> TextConfig:
    return configs.build(TextConfig, preset(f"text/{name}"))


def differing(*presets: str) -> set[str]:
    """The settings in which two presets of texts differ."""
    one, other = (configs.flatten(of_texts(name).identity()) for name in presets)
    return {key for key in one if one[key] != other[key]}


@pytest.mark.parametrize("name", names("text"))
def test_a_preset_of_text_chooses_on_validation_data_and_honest_changes_nothing(name: str) -> None:
    paper, honest = (configs.build(TextConfig, preset(name, p)) for p in ("paper", "honest"))
    assert paper.train.select == "best-valid"
    assert dataclasses.replace(honest, protocol="paper") == paper
    task, dataset, method = parts(name)
    assert name == f"{task}/{dataset}-{method}"
    assert catalog()[dataset].task == "text"
    assert method.removesuffix("-random") == paper.model.name


@pytest.mark.parametrize(
    ("dataset", "lr"), [("mr", 5e-4), ("r8", 1e-3), ("r52", 5e-3), ("ohsumed", 5e-3)]
)
def test_the_presets_of_table_4_say_the_numbers_of_the_appendix_and_of_the_released_code(
    dataset: str, lr: float
) -> None:
    config = of_texts(f"{dataset}-textqgnn")
    train, model, data = config.train, config.model, config.data
    assert (train.lr, train.epochs, train.batch_size, train.clip) == (lr, 150, 4096, 0.5)
    assert (model.hidden_quats, model.steps, model.bias) == (96, 2, False)
    assert (model.dropout, model.pooled_dropout, model.activation) == (0.5, 0.5, "relu")
    assert (data.window, data.validation, data.vectors) == (3, 0.1, "glove-100d")
    assert differing(f"{dataset}-textqgnn", f"{dataset}-texting") == {"model.name"}
    for method in ("textqgnn", "texting"):
        drawn = of_texts(f"{dataset}-{method}-random")
        assert (drawn.data.vectors, drawn.data.dimensions) == ("none", 4 * 75)
        assert not drawn.model.learned_vectors
        changed = differing(f"{dataset}-{method}", f"{dataset}-{method}-random")
        assert changed == {"data.vectors", "data.dimensions"}
    fasttext, bilstm = (of_texts(f"{dataset}-{method}") for method in ("fasttext", "bilstm"))
    assert (4 * fasttext.model.hidden_quats, fasttext.model.bigrams) == (100, 0)
    assert bilstm.data.vectors == data.vectors
    assert bilstm.model.hidden_quats == model.hidden_quats


@pytest.mark.parametrize(
    ("dataset", "decay"),
    [("mr", 3.133e-3), ("r8", 5.554e-4), ("r52", 3.392e-6), ("ohsumed", 1e-4)],
)
def test_the_presets_on_the_graph_of_a_corpus_say_the_numbers_of_their_released_code(
    dataset: str, decay: float
) -> None:
    gcn, sgc = (of_texts(f"{dataset}-{method}") for method in ("textgcn", "textsgc"))
    assert (gcn.model.pmi_window, gcn.model.counts) == (sgc.model.pmi_window, sgc.model.counts)
    assert (gcn.model.pmi_window, gcn.model.counts) == (20, "released")
    assert (gcn.model.width, gcn.model.dropout) == (200, 0.5)
    assert (gcn.train.lr, gcn.train.epochs, gcn.train.weight_decay) == (0.02, 200, 0)
    assert sgc.train.weight_decay == decay
    assert gcn.train.clip is sgc.train.clip is None


@pytest.mark.parametrize("dataset", ["mr", "r8", "r52", "ohsumed"])
def test_gated_gnn_trains_as_texting(dataset: str) -> None:
    gated, texting = of_texts(f"{dataset}-gated-gnn"), of_texts(f"{dataset}-texting")
    assert (gated.data, gated.train) == (texting.data, texting.train)
    assert gated.model.width == texting.model.width


@pytest.mark.parametrize(("method", "configurations"), [("textqgnn", 32), ("fasttext", 16)])
def test_the_search_of_text_holds_the_papers_and_is_four_ensembles(
    method: str, configurations: int
) -> None:
    task, grid = TASKS["text"], protocols("text")["grid"]
    assert grid["train.lr"] == [1e-4, 5e-4, 1e-3, 5e-3]
    lists = configs.restrict_grid(grid, configs.to_dict(of_texts(f"mr-{method}")), fixed=())
    tried = [
        configs.build(TextConfig, made)
        for made in configs.expand_grid(preset(f"text/mr-{method}"), lists)
    ]
    assert len(tried) == configurations
    assert len(group_by_shape(task, [Member(config, 0, 0) for config in tried])) == 4
    if method == "textqgnn":
        assert of_texts("mr-textqgnn") in tried


def test_an_unknown_preset_is_a_mistake_with_a_hint() -> None:
    with pytest.raises(UserError, match="no preset 'node/cora-qgn'; did you mean 'node/cora-qgnn'"):
        preset("node/cora-qgn")
    with pytest.raises(UserError, match="`quatgraph list presets` lists them"):
        preset("zzzzzzzz")
    with pytest.raises(UserError, match="no preset"):
        preset("../presets/node/cora-qgnn")


def test_a_dataset_and_a_method_may_have_dashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "preset", lambda name: {"data": {"name": "imdb-b"}})
    assert parts("graph/imdb-b-gcn-matched") == ("graph", "imdb-b", "gcn-matched")


def test_reading_a_preset_twice_gives_values_that_are_not_shared() -> None:
    preset("node/cora-qgnn")["train"]["lr"] = 7.0
    assert preset("node/cora-qgnn")["train"]["lr"] == 0.05

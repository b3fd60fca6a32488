"""Training on your own triples from the command line: reports, queries, notes and errors."""

import itertools
import json
import re
import shlex
import time
from pathlib import Path

import pytest
from cities import cities, part_rows, write_cities
from commands import assert_user_error, call

SHORT = ["--set", "train.epochs=3", "--set", "model.dim_quats=2", "--device", "cpu"]
SHORT += ["--set", "model.name=simqgnn"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def towns(tmp_path: Path) -> Path:
    """A folder with the parts of a knowledge graph."""
    return write_cities(tmp_path / "towns")


METRICS = r"MRR \.\d{3}, Hits@10 \d+\.\d %"


def test_ones_own_triples_are_trained_evaluated_and_asked(towns: Path) -> None:
    trained = call("train", "link", "--data", "towns", *SHORT)
    assert (trained.exit_code, trained.stderr) == (0, "")
    worth, chosen, kept, ask = trained.stdout.splitlines()
    assert re.fullmatch(f"test {METRICS}", worth)
    assert re.match(
        r"(selected from|the best of) \d configurations of \w+ on validation data: lr 0\.0", chosen
    )
    alone = f"the best run on validation data: split 0, seed 0, valid {METRICS}, test {METRICS}"
    assert re.fullmatch(rf"saved ({alone}|\d models; their predictions are combined: .*)", kept)
    assert ask == (
        "predict with: quatgraph predict quatgraph-runs/towns "
        "--head 'person 1' --relation 'works in'"
    )
    answered = call(*shlex.split(ask)[3:])
    assert (answered.exit_code, answered.stderr) == (0, "")
    assert answered.stdout.split()[:4] == ["rank", "tail", "score", "known"]
    assert call("evaluate", "quatgraph-runs/towns", "--device", "cpu").exit_code == 0


def test_a_file_too_small_to_choose_by_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("a\tknows\tb\n")
    one = ["train", "link", "--data", "one.tsv", *SHORT, "--out", "m"]
    assert_user_error(
        call(*one), "no validation data", "set train.select=last and train.lr yourself"
    )
    trained = call(*one, "--set", "train.select=last", "--set", "train.lr=0.01")
    assert trained.exit_code == 0
    assert "0 for valid and 0 for test were drawn from" in trained.stderr
    assert "chosen on" not in trained.stdout
    assert "\nsaved the first run, without validation data: split 0, seed 0\n" in trained.stdout
    evaluated = call("evaluate", "m", "--device", "cpu")
    assert (evaluated.exit_code, evaluated.stdout) == (0, "")
    assert "m was trained without validation and test data" in evaluated.stderr


def test_several_seeds_are_told_by_mean_and_deviation_also_to_programs(towns: Path) -> None:
    several = ["train", "link", "--data", "towns", *SHORT, "--seeds", "3", "--set", "train.lr=0.01"]
    first = call(*several).stdout.splitlines()[0]
    assert re.fullmatch(
        r"test MRR \.\d{3} ± \.\d{3}, Hits@10 \d+\.\d ± \d+\.\d % over 3 seeds", first
    )
    result = json.loads(call(*several, "--out", "again", "--json").stdout)
    assert (result["runs"], result["configs"]) == (3, 1)
    assert result["test"].keys() == {"mrr", "hits@10"}
    assert result["test"]["mrr"] == {"mean": result["mean"], "std": result["std"]}
    assert f"{result['test']['hits@10']['mean'] * 100:.1f} ± " in first


def test_a_preset_of_link_is_trained(tmp_path: Path) -> None:
    trained = call("train", "link/countries-simqgnn", *SHORT)
    assert trained.exit_code == 0
    assert re.fullmatch(f"test {METRICS}", trained.stdout.splitlines()[0])
    assert (tmp_path / "quatgraph-runs" / "link" / "countries-simqgnn-honest").is_dir()


def test_what_a_file_brought_up_is_told(tmp_path: Path) -> None:
    lines = "".join(part_rows(cities(), part) for part in ("train", "valid", "test"))
    (tmp_path / "my.towns.csv").write_text(
        "subject,predicate,object\n" + (lines + lines[: lines.index("\n") + 1]).replace("\t", ",")
    )
    trained = call("train", "link", "--data", "my.towns.csv", *SHORT)
    assert trained.exit_code == 0
    file = tmp_path / "my.towns.csv"
    assert f"the columns of {file} are read by name: 'subject' as head" in trained.stderr
    assert f"{file} repeats 1 triple; each counts once\n" in trained.stderr
    assert f"4 for valid and 4 for test were drawn from the triples of {file}" in trained.stderr
    assert (tmp_path / "quatgraph-runs" / "my.towns" / "card.json").exists()


def test_what_training_never_saw_is_kept_and_measured_apart(towns: Path) -> None:
    with (towns / "test.tsv").open("a") as file:
        file.write("person 1\tknows\tZoë\n")
    train = ["train", "link", "--data", "towns", *SHORT]
    line = len((towns / "test.tsv").read_text().splitlines())
    kept = call(*train, "--out", "kept")
    assert f"test.tsv, the first in line {line}, has an entity or a relation" in kept.stderr
    assert "test MRR by whether all names of a triple were seen in training ." in kept.stdout
    evaluated = call("evaluate", "kept", "--json")
    assert evaluated.exit_code == 0
    found = {row["metric"]: row for row in map(json.loads, evaluated.stdout.splitlines())}
    shares = {"seen": (line - 1) / line, "unseen": 1 / line}
    mean = sum(share * found[f"test-{kind}/mrr"]["computed"] for kind, share in shares.items())
    assert mean == pytest.approx(found["test/mrr"]["computed"])
    assert_user_error(
        call(*train, "--out", "refused", "--set", "data.unseen=refuse"),
        f"test.tsv line {line}: no training triple has the entity 'Zoë'",
        "--set data.unseen=drop",
    )
    dropped = call(*train, "--out", "dropped", "--set", "data.unseen=drop")
    assert dropped.exit_code == 0
    assert "1 triple of" in dropped.stderr
    assert "left out for an entity or a relation that no training triple has" in dropped.stderr
    assert "seen in training" not in dropped.stdout


@pytest.mark.parametrize("suffix", [".nt", ".ttl"])
def test_rdf_is_trained_on_and_asked_by_label(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    lines = [f"<urn:{n}> <urn:next> <urn:{(n + 1) % 30}> ." for n in range(30)]
    lines += [f"<urn:{n}> <urn:far> <urn:{(n + 7) % 30}> ." for n in range(30)]
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines += [f'<urn:5> {label} "five"@en .', f'<urn:next> {label} "follows"@en .']
    Path(f"ring{suffix}").write_text("\n".join([*lines, '<urn:5> <urn:size> "5" .', ""]))
    trained = call("train", "link", "--data", f"ring{suffix}", *SHORT, "--out", "model")
    assert trained.exit_code == 0
    assert f"1 literal of {tmp_path / f'ring{suffix}'} is left out" in trained.stderr
    asked = call("predict", "model", "--head", "five", "--relation", "follows", "--json")
    assert asked.exit_code == 0
    Path(f"ring{suffix}").write_text("<urn:5> <urn:next>\n")
    assert_user_error(
        call("train", "link", "--data", f"ring{suffix}"), f"ring{suffix} line 2, column 1 is not"
    )


def test_columns_of_any_name_are_selected(tmp_path: Path) -> None:
    rows = [f"{n},{n % 7},knows,{(n + 1) % 20}" for n in range(40)]
    Path("who.csv").write_text("\n".join(["row,person,how,friend", *rows, ""]))
    assert_user_error(call("train", "link", "--data", "who.csv"), "4 columns", "--set data.head=")
    names = ["--set", "data.head=person", "--set", "data.tail=friend"]
    trained = call(
        *("train", "link", "--data", "who.csv", *SHORT, *names, "--set", "data.relation=how")
    )
    assert trained.exit_code == 0
    assert "'person' as head, 'how' as relation, 'friend' as tail; not used: 'row'" in (
        trained.stderr
    )
    assert_user_error(
        call("train", "link", "--data", "who.csv", "--set", "data.head=persn", "--out", "no"),
        "who.csv has no column 'persn'; did you mean 'person'?",
    )


def test_without_test_triples_nothing_is_said_of_them(towns: Path) -> None:
    for part in ("valid", "test"):
        (towns / f"{part}.tsv").write_text("person 1\tknows\tZoë\n")
    trained = call(
        *("train", "link", "--data", "towns", *SHORT, "--set", "data.unseen=drop"),
        *("--set", "train.select=last", "--set", "train.lr=0.01"),
    )
    assert trained.exit_code == 0, trained.stderr
    first, *_, kept, ask = trained.stdout.splitlines()
    assert first == "no test data, so there are no test metrics"
    assert kept.endswith(": split 0, seed 0")
    assert call(*shlex.split(ask)[3:]).exit_code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\tr\tb\nb\tr\n", "mine.tsv line 2 has 2 columns where 3 are needed"),
        (b"a\tr\tb\nb\tr\tc\td\n", "mine.tsv line 2 has 4 columns where 3 are needed"),
        (b"a,r,b\nb,,c\n", "mine.tsv line 2 has an empty relation"),
        (b"", "mine.tsv has no triples; write one per line: head, relation, tail"),
        (b"head\trelation\ttail\n", "mine.tsv has no triples"),
        (b"a\tr\tb\nb\tr\tZo\xeb\n", "mine.tsv line 2 is not UTF-8 text; save it as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_mistake_and_leaves_nothing(
    content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.tsv").write_bytes(content)
    assert_user_error(call("train", "link", "--data", "mine.tsv"), words)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.tsv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "nowhere.tsv"], "nowhere.tsv; the task link reads a folder with train.tsv"),
        (["--data", "."], "has no train.tsv"),
        ([], "`quatgraph train link --data PATH`"),
        (
            ["--data", "nowhere.tsv", "--directed"],
            "--directed is an option of the task node, not of",
        ),
    ],
)
def test_data_that_is_not_there_is_a_mistake(arguments: list[str], words: str) -> None:
    assert_user_error(call("train", "link", *arguments), words)


def test_labels_of_other_entities_are_a_mistake(towns: Path) -> None:
    (towns / "entities.tsv").write_text("Q1\tsomebody\n")
    assert_user_error(call("train", "link", "--data", "towns"), "entities.tsv names none of the 30")


def test_a_long_training_is_told_beforehand(towns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every look at the clock is a minute after the last: an epoch of a draw, four steps and an
    # evaluation takes six of them.
    minutes = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 60.0 * next(minutes))
    steps = ["--set", "train.batch_size=32", "--set", "train.evaluate_every=1"]
    train = ["train", "link", "--data", "towns", *SHORT, *steps, "--set", "train.lr=0.01"]
    trained = call(*train, "--set", "train.patience=none")
    assert trained.exit_code == 0
    found = re.fullmatch(
        r"quatgraph: towns simqgnn, 1 run: about (\d+) min for the rest of 3 epochs, .* GiB\n",
        trained.stderr,
    )
    assert found
    assert int(found[1]) == 2 * 6
    assert "at most" in call(*train, "--out", "again", "--set", "train.patience=5").stderr

"""What an epoch goes to: every kernel has a kind, and kinds add up."""

import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks import steps
from benchmarks.__main__ import _format_row
from benchmarks.render import render_steps
from quatgraph.ops import kernels
from quatgraph.presets import names

KERNELS = sorted(
    name
    for path in Path(kernels.__file__).parent.glob("*.py")
    for name in re.findall(r"^def (_\w*kernel)\(", path.read_text(), flags=re.M)
)


@pytest.mark.parametrize("name", KERNELS)
def test_each_of_our_kernels_has_a_kind_of_its_own(name: str) -> None:
    assert steps.kind_of(name) not in ("other", "copies and fills")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_score_grads_kernel", "score gradients"),
        ("_norm_part_sums_kernel", "norms and activations"),
        ("_pool_backward_kernel", "gates and attention"),
        ("_update_backward_kernel", "gates and attention"),
        ("_concat_columns_kernel", "Adam and gradient layout"),
        ("_dropout_kernel", "dropout"),
        ("_sum_rows_and_pieces_kernel", "neighbour sums"),
        ("_small_table_kernel", "row lookups"),
        ("_gather_kernel", "Hamilton matrices"),
        ("nvjet_sm90_tst_176x128_64x5_1x2_h_bz_TNN", "matrix products"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>(float)", "matrix products"),
        ("aten::baddbmm", "matrix products"),
        ("Memcpy DtoD (Device -> Device)", "copies and fills"),
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", "row lookups"),
        ("aten::_fused_adam_", "Adam and gradient layout"),
        ("aten::sub", "other"),
    ],
)
def test_names_of_torch_and_ours_are_told_apart(name: str, kind: str) -> None:
    assert steps.kind_of(name) == kind


@pytest.mark.slow
def test_a_row_is_an_epoch_and_what_it_goes_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(steps, "CASES", {"cpu": [("node/karate-qgnn", 2, 40)]})
    (row,) = steps.rows(torch.device("cpu"))
    assert (row["case"], row["variant"]) == ("node/karate-qgnn, 2 runs", "an epoch")
    assert row["ms"] > 0
    assert {*row["goes_to"]} <= {*steps.KINDS}
    times = [ms for ms, _ in row["goes_to"].values()]
    assert times == sorted(times, reverse=True)
    assert min(times) > 0
    assert row["goes_to"]["neighbour sums"][1] >= 2  # of a layer, and of its gradient
    about = {"device": "cpu", "cpu": "a CPU", "cpus": "2"}
    (tmp_path / "steps.jsonl").write_text(json.dumps({**row, "environment": about}))
    table = render_steps(tmp_path).splitlines()
    assert len(table) == 3
    assert "gates and attention" not in table[2]  # what has none of the time is left out
    assert "neighbour sums" in table[2]
    assert render_steps(tmp_path / "none").startswith("Not run yet")


def test_a_row_is_told_in_words() -> None:
    row = {"case": "karate", "ms": 2.0, "goes_to": {"dropout": [1.5, 3], "other": [0.5, 9]}}
    assert _format_row(row) == ["karate", "2 ms", "dropout 1.5 ms", "other 0.5 ms"]


@pytest.mark.parametrize("device", steps.CASES)
def test_what_is_profiled_exists(device: str) -> None:
    assert {name for name, _, _ in steps.CASES[device]} <= {*names()}

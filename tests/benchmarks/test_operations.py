"""Operations beside their plain forms: the same numbers, and rows that count what they do."""

import pytest
import torch

from benchmarks import fused, hamilton, kernels, limits, loss
from benchmarks.measure import passes
from quatgraph.ops import attention_pool, gated_step, hamilton_linear

CPU = torch.device("cpu")
PASSES = ["forward", "backward", "forward and backward"]


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COPIED", {"cpu": 1 << 10})
    monkeypatch.setattr(limits, "SQUARE", {"cpu": 8})


def test_passes_time_forward_backward_and_both() -> None:
    calls = []

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * y

    inputs = torch.ones(3, requires_grad=True), torch.ones(3)
    found = dict(passes(run, inputs, CPU, repeats=4, capture=True))
    assert list(found) == PASSES
    assert len(calls) == 1 + 7 + 7  # none is made for the backward pass alone
    assert all(timed["ms"] > 0 for timed in found.values())


def test_hamilton_compares_forms_and_counts_their_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hamilton, "SIZES", {"cpu": (5, (8,))})
    copied, multiplied, *rows = hamilton.rows(CPU)
    assert {copied["case"], multiplied["case"]} == {limits.REACHED}
    assert [row["variant"] for row in rows] == [
        *["hamilton_linear"] * 3,
        *["real linear"] * 3,
        *["eight products"] * 3,
    ]
    assert [row["work"] for row in rows] == 3 * PASSES
    forward, backward, both = (row["gflop"] for row in rows[:3])
    assert forward == 2 * 5 * 8**2 / 1e9
    assert (backward, both) == pytest.approx((2 * forward, 3 * forward))
    assert rows[6]["gflop"] == forward / 2


def test_eight_products_are_the_hamilton_product() -> None:
    x = torch.randn(5, 12, dtype=torch.float64)
    weight = torch.randn(4, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(hamilton.eight_products(x, weight), hamilton_linear(x, weight))


def test_losses_in_tiles_are_those_of_all_scores_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "SIZES", {"cpu": (6, 20, 8)})
    _, _, *rows = loss.rows(CPU)
    assert [(row["work"], row["variant"]) for row in rows] == [
        ("bce, float32", "tiled"),
        ("bce, float32", "full score matrix"),
        ("cross-entropy, float32", "tiled"),
        ("cross-entropy, float32", "full score matrix"),
    ]
    assert {row["gflop"] for row in rows} == {float(f"{6 * 6 * 20 * 8 / 1e9:.4g}")}
    assert round(loss.gflop(1024, 78_000, 512)) == 245
    q, x, positives = loss.drawn(6, 20, 8, CPU)
    for name in loss.LOSSES:
        tiles, at_once = loss._variants(name, "float32", positives, CPU).values()
        torch.testing.assert_close(tiles(q, x), at_once(q, x))
    on_gpu = loss._variants("bce", "bfloat16", positives, torch.device("cuda"))
    assert list(on_gpu) == ["tiled", "tiled, captured"]


def test_fused_compares_forms_that_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "SIZES", {"cpu": (10, 3, 4)})
    _, _, *rows = fused.rows(CPU)
    assert [row["work"] for row in rows] == 4 * PASSES
    assert {row["variant"] for row in rows} == {"quatgraph", "separate operations"}
    assert rows[0]["gflop"] == pytest.approx(6 * 2 * 10 * 4**2 / 1e9)
    assert "gflop" not in rows[-1]
    assert rows[-1]["limit"] == "copy"
    for work, ours in ((fused._gated(10, 4, CPU), gated_step), (_pooling(), attention_pool)):
        torch.testing.assert_close(ours(*work.inputs), work.plain(*work.inputs))
    with_torch = [variant for variant, *_ in fused._variants(work, torch.device("cuda"))]
    assert with_torch == ["quatgraph", "torch form", "separate operations"]


def _pooling() -> fused._Work:
    return fused._pooled(10, 3, 4, CPU)


def test_kernels_are_timed_beside_forms_that_compute_the_same() -> None:
    works = kernels.entity_works(30, 7, 8, CPU)
    for group in (kernels.ensemble_works(2, 6, 8, CPU), works):
        group.pop("dropout", None)  # whose masks torch draws in another way
        *others, (step, same) = group.values()  # Adam, whose two forms are a choice of its own
        assert step is same
        assert all(torch.isfinite(learned).all() for learned in step())
        for ours, plain in others:
            mine, wanted = ours(), plain()
            assert len(mine) >= 1
            for one, other in zip(mine, wanted, strict=True):
                torch.testing.assert_close(one, other)
    assert {"entity lookup and head-relation product", "Adam"} < works.keys()
    assert list(kernels.rows(CPU)) == []

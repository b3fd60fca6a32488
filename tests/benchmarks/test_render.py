"""Benchmark records as tables."""

import json
from pathlib import Path
from typing import Any

from benchmarks.limits import REACHED
from benchmarks.render import (
    render_bench,
    render_beside,
    render_growth,
    render_own_data,
    render_serve,
)


def row(variant: str, ms: float, device: str = "cpu", **more: Any) -> str:
    machine = {"device": device, "cpu": "chip", "cpus": "2"}
    about = {"environment": machine, "case": "c", "work": "w", "variant": variant}
    return json.dumps(about | {"ms": ms} | more) + "\n"


def test_the_newest_row_of_each_variant_and_device_is_shown(tmp_path: Path) -> None:
    rows = row("a", 1.0) + row("b", 3.0) + row("a", 2.0, "gpu", peak_mib=1024.4) + row("a", 1.5)
    (tmp_path / "conv.jsonl").write_text(rows)
    assert render_bench(tmp_path, "conv").splitlines()[2:] == [
        "| chip, 2 cores | c | w | a | 1.5 ms |  |",
        "| chip, 2 cores | c | w | b | 3 ms |  |",
        "| gpu | c | w | a | 2 ms | 1,024 MiB |",
    ]


def test_trainings_are_shown_with_their_start_where_asked(tmp_path: Path) -> None:
    made = row("a", 1.0, seconds=2.5, seconds_with_start=3.25).replace('"ms": 1.0, ', "")
    (tmp_path / "graph.jsonl").write_text(made)
    lines = render_bench(tmp_path, "graph", with_start=True).splitlines()
    assert lines[0].endswith("| variant | training | with start |")
    assert lines[2].endswith("| a | 2.5 s | 3.25 s |")
    assert render_bench(tmp_path, "graph").splitlines()[2].endswith("| a | 2.5 s |")


def test_missing_records_say_how_to_make_them(tmp_path: Path) -> None:
    assert "python -m benchmarks conv --out" in render_bench(tmp_path, "conv")
    assert "python -m benchmarks loss --out" in render_beside(tmp_path, "loss")
    assert "python -m benchmarks growth --out" in render_growth(tmp_path)
    assert "python -m benchmarks serve --out" in render_serve(tmp_path)
    shown = render_own_data(tmp_path, "hidden")
    assert "python -m benchmarks own_data --hidden --out" in shown


def test_loads_of_the_service_stand_above_its_times(tmp_path: Path) -> None:
    load = {"per_second": 1234.5, "p50": 9.876, "p99": 20.0, "worst": 31.0, "errors": 0}
    rows = row("pool", 0.0, **load, grown_mib=1.6) + row("quatgraph serve", 0.25, work="search")
    (tmp_path / "serve.jsonl").write_text(rows)
    lines = render_serve(tmp_path).splitlines()
    assert lines[2].endswith("| pool | 1,234 | 9.88 ms | 20 ms | 31 ms | 0 | 2 MiB |")
    assert lines[4] == "| device | case | work | time |"
    assert lines[6] == "| chip, 2 cores | c | search | 0.25 ms |"


def test_kinds_of_datasets_have_tables_of_their_own(tmp_path: Path) -> None:
    numbers = {"ours": 50.0, "rival": 60.0, "difference": -10.0, "regret": 10.0}
    numbers |= {"against": "SVM", "single": 49.0, "seconds": 1.0, "rival_seconds": 2.0}
    visible = row("defaults", 0.0, case="text: a", work="3 splits", **numbers)
    numbers |= {"ours": 70.0, "difference": 10.0, "regret": 0.0, "against": "fastText"}
    hidden = row("defaults", 0.0, case="text: b", work="hidden, 3 splits", **numbers)
    (tmp_path / "own_data.jsonl").write_text(visible + hidden)
    assert "| text: a | 50.0 | 49.0 | SVM |" in render_own_data(tmp_path, "visible")
    shown = render_own_data(tmp_path, "hidden")
    assert "| text: b | 70.0 | 49.0 | fastText |" in shown
    assert "text: a" not in shown
    numbers |= {"ours": 71.0, "environment": {"device": "gpu"}}
    again = row("defaults", 0.0, case="text: b", work="hidden, 3 splits", **numbers)
    (tmp_path / "own_data.jsonl").write_text(visible + hidden + again)
    shown = render_own_data(tmp_path, "hidden")
    assert shown.count("text: b") == 1  # the newest row, from whatever machine
    assert "| text: b | 71.0 |" in shown
    other = row("defaults", 0.0, case="text: c", work="packages, 3 splits", **numbers)
    (tmp_path / "own_data.jsonl").write_text(visible + hidden + other)
    tables = {kind: render_own_data(tmp_path, kind) for kind in ("visible", "hidden", "packages")}
    assert [kind for kind, shown in tables.items() if "text: c" in shown] == ["packages"]


def test_shares_stand_below_what_the_machine_reaches(tmp_path: Path) -> None:
    copied = row("float32", 2.0, gb=0.05).replace('"c"', f'"{REACHED}"').replace('"w"', '"copy"')
    counted = row("a", 4.0, gb=0.05, share=0.5, limit="copy")
    (tmp_path / "aggregate.jsonl").write_text(copied + counted + row("b", 3.0))
    assert render_bench(tmp_path, "aggregate").splitlines() == [
        "- chip, 2 cores reaches 25 GB/s in a copy",
        "",
        "| device | case | work | variant | time | share of limit |",
        "|---|---|---|---|---|---|",
        "| chip, 2 cores | c | w | a | 4 ms | 50 % of copy |",
        "| chip, 2 cores | c | w | b | 3 ms |  |",
    ]


def test_ratios_have_a_column(tmp_path: Path) -> None:
    (tmp_path / "peers.jsonl").write_text(row("a", 2.0, ratio=1.0) + row("b", 9.0, ratio=4.5))
    lines = render_bench(tmp_path, "peers").splitlines()
    assert lines[0].endswith("| time | relative time |")
    assert lines[3].endswith("| b | 9 ms | 4.5 |")


def test_variants_stand_beside_each_other(tmp_path: Path) -> None:
    limit = row("tf32", 2.0, gflop=600.0).replace('"c"', f'"{REACHED}"').replace('"w"', '"product"')
    slow = row("float32", 2.0, gflop=1.0).replace('"c"', f'"{REACHED}"').replace('"w"', '"product"')
    a = row("a", 1.0, share=0.9, limit="product", beyond_mib=512.4)
    b = row("b", 2.0, share=0.02, limit="copy")
    other = row("b", 7.0, "gpu", share=0.5, limit="copy")
    (tmp_path / "loss.jsonl").write_text(other + slow + limit + a + b)
    assert render_beside(tmp_path, "loss").splitlines() == [
        "- chip, 2 cores reaches 500 GFLOP/s in a product of float32, "
        "300 TFLOP/s in a product of tf32",
        "",
        "| device | case | work | b | a |",
        "|---|---|---|---|---|",
        "| gpu | c | w | 7 ms, 50 % of copy |  |",
        "| chip, 2 cores | c | w | 2 ms, 2 % of copy | 1 ms, 90 % of product, 512 MiB |",
    ]


def test_growth_is_told_by_series_or_said_to_be_too_short(tmp_path: Path) -> None:
    def line(name: str, size: int, ms: float) -> str:
        more = {"series": name, "grows": "edges", "size": size, "floor_ms": 0.1}
        return row("a", ms, **more).replace('"c"', f'"edges: {size}"').replace('"w"', f'"{name}"')

    long = "".join(line("long", size, size**0.5) for size in (4, 100, 10_000, 1))
    short = "".join(line("short", size, 0.9) for size in (1, 10, 100))
    (tmp_path / "growth.jsonl").write_text(long + short)
    assert render_growth(tmp_path).splitlines()[2:] == [
        "| chip, 2 cores | long | edges | 1 to 10,000 | 1 ms to 100 ms | n^0.50 |",
        "| chip, 2 cores | short | edges | 1 to 100 | 0.9 ms to 0.9 ms | too short |",
    ]

"""The page in a browser: every view answers, says its mistakes, and fits its window."""

import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any

import cities
import portfolios
import pytest
from made_up import made_up, write_runs
from playwright.sync_api import Browser, expect
from services import service
from visits import BYTES, FAINT, NAMELESS, SCROLLS, SHIFT, Visit, visiting

from quatgraph.serve.registry import Model
from quatgraph.training.record import append_records
from tools.screenshots import show

VIEWS = {
    "link": "?model=link",
    "text": "?model=text",
    "node": "?model=node",
    "graph": "?model=graph",
    "model": "?model=link&view=model",
    "runs": "?view=runs",
}
HOSTILE = "<img src=x onerror=alert(1)>"
LARGEST = 150_000


def test_texts_are_shaded_and_several_are_classified_at_once(visit: Visit) -> None:
    page = visit.open("?model=text")
    expect(page.locator(".read")).to_have_count(1)
    area = page.get_by_label("Texts")
    area.fill("a charming little film\ndull and slow")
    area.press("Enter")
    expect(page.locator(".read")).to_have_count(2)
    assert visit.state()["text"] == ["a charming little film", "dull and slow"]
    page.reload()
    expect(page.locator(".read").first).to_have_text("a charming little film")
    page.get_by_text("The words as a table").first.click()
    expect(page.locator("details td").first).to_be_visible()
    area.press("Escape")
    area.press("Enter")
    expect(page.get_by_text("type a text to classify")).to_be_visible()


def test_a_long_text_is_no_part_of_the_address(visit: Visit) -> None:
    page = visit.open("?model=text")
    expect(page.locator(".read")).to_have_count(1)
    page.get_by_label("Texts").fill("charming film " * 1000)
    page.get_by_role("button", name="Classify").click()
    expect(page.locator(".read")).to_contain_text("charming film charming film")
    assert visit.state() == {"model": ["text"]}


def test_nodes_are_found_drawn_and_listed(visit: Visit) -> None:
    page = visit.open("?model=node")
    expect(page.locator("svg .node").first).to_be_visible()
    field = page.get_by_label("Node", exact=True)
    field.fill("n7")
    expect(page.locator(".list:visible li").first).to_have_text("n7")
    field.press("ArrowDown")
    field.press("Enter")
    expect(page.get_by_role("heading", name="Around n7")).to_be_visible()
    page.locator("svg .node", has_text="n9").click()
    expect(page.get_by_role("heading", name="Around n9")).to_be_visible()
    page.reload()
    expect(field).to_have_value("n9")
    page.get_by_label("Filter nodes by id").fill("n12")
    page.get_by_role("link", name="n12", exact=True).click()
    expect(page.get_by_role("heading", name="Around n12")).to_be_visible()
    page.reload()
    expect(page.locator(".items tbody tr")).to_have_count(1)
    assert visit.state() == {"model": ["node"], "node": ["n12"], "q": ["n12"]}
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert Path(download.value.path()).read_text().startswith("id,prediction,probability")


def test_graphs_are_shown_by_id_and_drawn_by_hand(visit: Visit) -> None:
    page = visit.open("?model=graph")
    expect(page.locator("svg .node").first).to_be_visible()
    area = page.get_by_label("Edges, SMILES or JSON of a graph")
    area.fill("0-1, 1-2, 2-x")
    area.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(re.compile("'2-x' is not an edge"))
    expect(page.locator("svg .node")).to_have_count(0)
    area.fill("c1ccccc1O")
    area.press("Enter")  # the model was not trained on molecules
    expect(page.get_by_role("alert")).to_contain_text("node attributes, but the model was trained")
    area.fill("0-1, 1-2, 2-0, 2-3")
    area.press("Enter")  # the model was trained on graphs with tags
    expect(page.get_by_role("alert")).to_contain_text("the graphs have no node tags")
    expect(area).to_have_attribute("aria-invalid", "true")
    visit.forgive("status of 422")
    area.fill('{"edges": [[0, 1], [1, 2], [2, 0], [2, 3]], "node_labels": ["C", "C", "N", "O"]}')
    area.press("Enter")
    expect(page.get_by_role("heading", name="4 nodes, 4 edges")).to_be_visible()
    page.reload()
    expect(area).to_have_value(re.compile('"node_labels"'))
    expect(page.locator("svg .node")).to_have_count(4)


def test_a_file_is_read_wherever_it_is_dropped(visit: Visit) -> None:
    page = visit.open("?model=graph")
    expect(page.locator("svg .node").first).to_be_visible()
    graph = {"edges": [[0, 1], [1, 2], [2, 0]], "node_labels": ["C", "C", "N"]}
    files = page.get_by_label("File with a graph as JSON, or a SMILES")

    def give(name: str, text: str) -> None:
        files.set_input_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})

    give("pretty.json", json.dumps(graph, indent=2))
    expect(page.get_by_role("heading", name="3 nodes, 3 edges")).to_be_visible()
    give("two.jsonl", json.dumps(graph | {"id": "x"}) + "\n" + json.dumps(graph))
    expect(
        page.get_by_text("The first graph is shown; 1 more line below it is left out")
    ).to_be_visible()
    give("molecule.smi", "c1ccccc1O phenol\n")
    expect(page.get_by_role("alert")).to_contain_text("node attributes, but the model was trained")
    visit.forgive("status of 422")
    dropped = page.evaluate_handle(
        """text => { const found = new DataTransfer();
        found.items.add(new File([text], "one.json")); return found; }""",
        json.dumps({"edges": [[0, 1], [1, 2]], "node_labels": ["C", "C", "N"]}),
    )
    page.locator(".items").dispatch_event("drop", {"dataTransfer": dropped})
    expect(page.get_by_role("heading", name="3 nodes, 2 edges")).to_be_visible()


def test_the_model_tells_its_metrics_and_settings(visit: Visit) -> None:
    page = visit.open("?model=link&view=model")
    expect(page.get_by_role("heading", name="link", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="Hits@10")).to_be_visible()
    expect(page.get_by_text("model.dim_quats")).to_be_visible()
    page.get_by_label("Model", exact=True).select_option("text")
    expect(page.get_by_role("heading", name="text", exact=True)).to_be_visible()
    assert visit.state() == {"model": ["text"], "view": ["model"]}


def test_runs_are_filtered_sorted_overlaid_and_compared(visit: Visit) -> None:
    page = visit.open("?view=runs")
    rows = page.locator(".board tbody tr")
    expect(rows).to_have_count(6)
    page.get_by_role("button", name="Test").click()
    expect(rows.first).to_contain_text("83.0 %")
    page.get_by_role("button", name="Test").click()
    expect(rows.first).to_contain_text("78.0 %")
    page.get_by_label("Filter", exact=True).fill("gcn nowhere")
    expect(page.get_by_text("No run matches the filter.")).to_be_visible()
    page.get_by_label("Filter", exact=True).fill("gcn")
    expect(rows).to_have_count(3)
    page.get_by_label("Show the curve of gcn on cora, split 1, seed 0").uncheck()
    page.get_by_label("Show the curve of gcn on cora, split 2, seed 0").check()
    chosen = page.locator(".board input:checked")
    shown = chosen.count()
    page.get_by_label("First group").select_option(label="qgnn on cora")
    expect(page.locator(".verdict")).to_contain_text("gcn on cora is ahead of qgnn on cora by 2")
    expect(page.locator(".verdict tbody tr")).to_have_count(3)
    page.reload()
    expect(chosen).to_have_count(shown)
    expect(page.locator(".verdict tbody tr")).to_have_count(3)
    assert visit.state()["sort"] == ["test"]


def test_runs_of_one_method_are_told_apart_by_their_settings(
    browser: Browser, tmp_path: Path
) -> None:
    for lr in (0.01, 0.3):
        rates = f"train.lr={lr}", f"train.weight_decay={lr / 2000}"
        record = made_up("node", "cora", "gcn", *rates)
        append_records(tmp_path / "records.jsonl", [record])
    with (
        service(board=tmp_path) as client,
        visiting(browser, str(client.base_url)) as visit,
    ):
        page = visit.open("")
        rows = page.locator(".board tbody tr")
        expect(rows).to_have_count(2)
        for width in (1000, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SCROLLS) == [], width
        assert {row.locator(".line").inner_text() for row in rows.all()} == {
            "lr=0.01 weight_decay=0.000005",
            "lr=0.3 weight_decay=0.00015",
        }


def test_runs_are_sent_again_only_after_a_change(visit: Visit) -> None:
    request = visit.page.request
    first = request.get(f"{visit.address}/api/runs")
    again = request.get(
        f"{visit.address}/api/runs", headers={"If-None-Match": first.headers["etag"]}
    )
    assert (first.status, again.status, again.body()) == (200, 304, b"")


def test_a_new_record_appears_by_itself(visit: Visit, board: Path) -> None:
    page = visit.open("?view=runs&method=mlp")
    expect(page.get_by_text("No run matches the filter.")).to_be_visible()
    new = board / "late.jsonl"
    write_runs(new, "qgnn", 0.5, method="mlp")
    try:
        expect(page.locator(".board tbody tr")).to_have_count(3)
        expect(page.locator("#live")).to_have_text("3 new runs")
    finally:
        new.unlink()


@pytest.mark.parametrize(
    ("query", "label", "name", "sentence"),
    [
        ("?model=link", "Head", "persn 3", "'persn 3'.*did you mean"),
        ("?model=node", "Node", "n99", "there is no node 'n99' in the graph; did you mean"),
        ("?model=graph", "Graph of the training data", "ring-99", "there is no graph 'ring-99'"),
    ],
)
def test_an_unknown_name_is_said_beside_its_field(
    visit: Visit, query: str, label: str, name: str, sentence: str
) -> None:
    page = visit.open(query)
    field = page.get_by_label(label, exact=True)
    expect(field).not_to_have_value("")
    field.fill(name)
    field.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(re.compile(sentence))
    expect(page.locator("[aria-invalid=true]")).to_have_count(1)
    expect(field).to_have_attribute("aria-invalid", "true")
    visit.forgive("status of 422")


def test_a_stopped_server_is_said_once_and_the_page_goes_on(
    browser: Browser, bundles: dict[str, Path]
) -> None:
    with service([bundles["node"]]) as client:
        port = client.base_url.port
        context = browser.new_context()
        visit = Visit(context.new_page(), f"http://127.0.0.1:{port}")
        page = visit.open("?model=node")
        expect(page.get_by_role("heading", name="Around")).to_be_visible()
    page.get_by_label("Node", exact=True).fill("n5")
    page.get_by_label("Node", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    with service([bundles["node"]], port=port):
        expect(page.get_by_role("heading", name="Around n5")).to_be_visible(timeout=10_000)
        expect(page.get_by_role("alert")).to_have_count(0)
        visit.forgive("ERR_CONNECTION_REFUSED")
        assert visit.errors == []
        context.close()


def test_a_model_that_loads_again_is_shown_again(
    browser: Browser, bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with service([bundles["link"]]) as client:
        port = client.base_url.port
        context = browser.new_context()
        visit = Visit(context.new_page(), f"http://127.0.0.1:{port}")
        page = visit.open("")
        expect(page.locator("li.answer")).to_have_count(10)
    page.get_by_label("Tail", exact=True).fill("city 1")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.evaluate(
        """() => new MutationObserver(() => (window.seen = (window.seen ?? "") + main.textContent))
        .observe(main, { childList: true })"""
    )
    load = Model.load

    def load_slowly(model: Model) -> None:
        time.sleep(2)
        load(model)

    monkeypatch.setattr(Model, "load", load_slowly)
    with service([bundles["link"]], port=port):
        expect(page.locator("li.answer")).to_have_count(1)
        assert "Loading link" in page.evaluate("window.seen")
        visit.forgive("ERR_CONNECTION_REFUSED")
        assert visit.errors == []
        context.close()


def test_a_page_without_a_token_says_where_it_goes(
    browser: Browser, bundles: dict[str, Path]
) -> None:
    with (
        service([bundles["link"]], token="secret") as client,
        visiting(browser, str(client.base_url)) as visit,
    ):
        page = visit.open("?view=model")
        expect(page.get_by_role("alert")).to_contain_text("add #token=TOKEN to the address")
        page.evaluate("() => { location.hash = 'token=secret'; }")
        expect(page.get_by_role("heading", name="Metrics")).to_be_visible()
        visit.forgive("status of 401")


@pytest.mark.parametrize(
    "width", [360, *(pytest.param(w, marks=pytest.mark.slow) for w in (768, 1440))]
)
def test_nothing_moves_while_a_view_opens(browser: Browser, address: str, width: int) -> None:
    for view in VIEWS.values():
        size = {"width": width, "height": 900}
        with visiting(browser, address, viewport=size) as visit:
            show(visit.page, f"{visit.address}/{view}")
            assert visit.page.evaluate(SHIFT) < 0.02, view


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_small_labelled_legible_and_fits(
    browser: Browser, address: str, view: str
) -> None:
    for theme in ("light", "dark"):
        size = {"width": 1440, "height": 900}
        with visiting(browser, address, viewport=size, color_scheme=theme) as visit:
            page = visit.page
            show(page, f"{visit.address}/{VIEWS[view]}")
            assert page.evaluate(FAINT) == []
            assert page.evaluate(NAMELESS) == []
            assert page.evaluate(BYTES) < LARGEST
            for width in (1440, 1000, 768, 360):
                page.set_viewport_size({"width": width, "height": 900})
                wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                assert page.evaluate(wide) <= 0, width
                assert page.evaluate(SCROLLS) == [], width


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_list_of_requests_is_legible_and_fits(
    browser: Browser, address: str, theme: Any
) -> None:
    size = {"width": 360, "height": 900}
    with visiting(browser, address, viewport=size, color_scheme=theme) as visit:
        page = visit.open("docs")
        expect(page.get_by_role("heading", name="POST /api/models/{name}/predict")).to_be_visible()
        assert page.evaluate(FAINT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_role("link", name="Back to the page").click()
        expect(page.locator("main h2").first).to_be_visible()


def test_names_in_the_data_stay_text(browser: Browser, tmp_path: Path) -> None:
    names = [HOSTILE if name == "city 2" else name for name in cities.ENTITIES]
    data = dataclasses.replace(cities.cities(), entities=names, entity_labels=names)
    (model, _) = portfolios.bundled("link", [(cities.config_of(), 1)], data, tmp_path / "models")
    model = model.rename(tmp_path / "<b>model")
    write_runs(tmp_path / "runs.jsonl", "gcn", 0.8, method=HOSTILE, dataset=HOSTILE)
    with (
        service([model], tmp_path) as client,
        visiting(browser, str(client.base_url)) as visit,
    ):
        page = visit.open("?head=person+2&relation=lives+in")
        expect(page.locator("li.answer").get_by_text(HOSTILE)).to_be_visible()
        expect(page.locator("figure svg").get_by_text(HOSTILE[:21])).to_be_attached()
        page.get_by_label("Tail", exact=True).fill("<im")
        expect(page.locator(".list:visible li").first).to_have_text(HOSTILE)
        page.get_by_role("link", name="Model", exact=True).click()
        expect(page.get_by_role("heading", name="<b>model")).to_be_visible()
        page.get_by_role("link", name="Runs").click()
        expect(page.locator(".board").get_by_text(HOSTILE).first).to_be_visible()
        assert page.locator("main img, main b").count() == 0

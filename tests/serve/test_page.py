"""The page in a browser: every view answers, says its mistakes, and fits its window."""

import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cities
import portfolios
import pytest
from made_up import made_up
from playwright.sync_api import Browser, expect, sync_playwright
from services import service
from visits import BYTES, FAINT, NAMELESS, SHIFT, Visit, visiting

from quatgraph.training.record import append_records
from tools.screenshots import find_browser, launch, show

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        reason = "NO BROWSER: install Chromium or set QUATGRAPH_BROWSER to test the page"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright, launch(playwright) as found:
        yield found


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of two methods on three splits."""
    folder = tmp_path_factory.mktemp("board")
    for place, method in enumerate(("qgnn", "gcn")):
        write_runs(folder / f"{method}.jsonl", method, 0.8 + 0.02 * place)
    return folder


def write_runs(path: Path, method: str, accuracy: float, /, **others: Any) -> None:
    values = [accuracy - 0.02, accuracy, accuracy + 0.01]
    records = [
        made_up("node", "cora", method, split=split, curves={"valid/accuracy": values}, **others)
        for split in range(3)
    ]
    metrics = [{"valid/accuracy": 0.9, "test/accuracy": value} for value in values]
    pairs = zip(records, metrics, strict=True)
    append_records(path, [dataclasses.replace(one, metrics=own) for one, own in pairs])


@pytest.fixture(scope="module")
def address(bundles: dict[str, Path], board: Path) -> Iterator[str]:
    with service(list(bundles.values()), board) as client:
        yield str(client.base_url)


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as found:
        yield found


def test_a_triple_is_completed_from_the_keyboard(visit: Visit) -> None:
    page = visit.open("?model=link")
    rows = page.locator("li.answer")
    expect(rows).to_have_count(10)  # the example of a first visit
    page.keyboard.press("/")
    expect(page.get_by_label("Head", exact=True)).to_be_focused()
    page.keyboard.type("person 2")
    expect(page.locator(".list:visible li").first).to_have_text("person 2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("lives")
    expect(page.locator(".list:visible li").first).to_have_text("lives in")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"head=person\+2&relation=lives\+in"))
    known = page.locator("li.answer", has_text="city 2").locator(".mark")
    expect(known).to_have_text("known")
    expect(page.locator("#live")).to_contain_text("10 answers; the first is")
    page.reload()
    expect(known).to_have_text("known")
    expect(page.get_by_label("Head", exact=True)).to_have_value("person 2")
    page.get_by_label("Head", exact=True).focus()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Head", exact=True)).to_have_value("")


def test_an_answer_says_why_and_its_name_leads_on(visit: Visit) -> None:
    page = visit.open("?model=link&head=person+2&relation=lives+in")
    page.get_by_role("button", name="Why city 2?").click()
    expect(page.get_by_role("heading", name="Why city 2")).to_be_visible()
    expect(page.locator(".why li").first).to_be_visible()
    page.get_by_text("The drawing as a table").click()
    expect(page.locator("figure table").get_by_text("knows").first).to_be_visible()
    page.locator("li.answer").get_by_role("link", name="city 2", exact=True).click()
    expect(page.get_by_label("Tail", exact=True)).to_have_value("city 2")
    assert visit.state()["tail"] == ["city 2"]
    page.go_back()
    expect(page.get_by_label("Head", exact=True)).to_have_value("person 2")
    page.locator("svg .node", has_text="person 7").click()
    expect(page).to_have_url(re.compile("person\\+7"))


def test_known_answers_can_be_left_out(visit: Visit) -> None:
    page = visit.open("?model=link&head=person+2&relation=lives+in")
    expect(page.locator(".mark", has_text="known")).to_have_count(1)
    page.get_by_label("only new answers").check()
    expect(page.locator(".mark", has_text="known")).to_have_count(0)
    assert visit.state()["known"] == ["leave-out"]


def test_a_whole_triple_is_ranked(visit: Visit) -> None:
    page = visit.open("?model=link&head=person+2&relation=lives+in&tail=city+2")
    sentence = page.get_by_role("region", name="Answers").get_by_text("Of all tails, city 2 ranks")
    expect(sentence).to_be_visible()


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
            assert page.evaluate(SHIFT) < 0.05
            for width in (1440, 768, 360):
                page.set_viewport_size({"width": width, "height": 900})
                wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                assert page.evaluate(wide) <= 0, width


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

"""The view of triples in a browser: asking, answers, why, and the names that lead on."""

import dataclasses
import re
from pathlib import Path

import cities
import portfolios
from playwright.sync_api import Browser, expect
from services import service
from visits import CUT, Visit, visiting


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
    expect(page.get_by_role("heading", name="Around city 2")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Around person 2")).to_be_visible()
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


def test_a_triple_may_be_written_into_one_field(visit: Visit) -> None:
    page = visit.open("?model=link")
    fields = [page.get_by_label(name, exact=True) for name in ("Head", "Relation", "Tail")]
    expect(fields[0]).not_to_have_value("")
    for field in fields:
        field.fill("")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_have_text(re.compile("write a head and a relation"))
    fields[0].fill("person 2, lives in, ?")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("li.answer", has_text="city 2").locator(".mark")).to_have_text("known")
    expect(fields[1]).to_have_value("lives in")
    assert visit.state() == {"model": ["link"], "head": ["person 2"], "relation": ["lives in"]}


def test_entities_with_one_label_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    data = cities.cities()
    labels = ["Springfield" if name.startswith("city") else name for name in data.entities]
    data = dataclasses.replace(data, entity_labels=labels)
    (model, _) = portfolios.bundled("link", [(cities.config_of(), 1)], data, tmp_path / "models")
    with service([model]) as client, visiting(browser, str(client.base_url)) as visit:
        page = visit.open("?head=person+2&relation=lives+in")
        town = page.locator("li.answer", has_text="Springfield (city 2)")
        expect(town.locator(".mark")).to_have_text("known")
        town.get_by_role("button", name="Why").click()
        expect(page.locator("li.chosen")).to_have_text(re.compile(r"Springfield \(city 2\)"))
        town.get_by_role("link").click()
        expect(page.get_by_label("Tail", exact=True)).to_have_value("city 2")
        page.get_by_label("Tail", exact=True).fill("springf")
        names = page.locator(".list:visible li")
        expect(names.first).to_have_text("Springfield (city 0)")
        names.nth(1).click()
        expect(page.get_by_label("Tail", exact=True)).to_have_value("city 1")


def test_an_older_answer_does_not_stay_beside_a_mistake(visit: Visit) -> None:
    page = visit.open("?model=link")
    expect(page.locator("li.answer")).to_have_count(10)
    page.get_by_label("Head", exact=True).fill("nobody")
    page.get_by_label("Head", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("li.answer")).to_have_count(0)
    visit.forgive("status of 422")


def test_labels_of_a_drawing_are_not_cut_and_the_answer_has_one(
    browser: Browser, tmp_path: Path
) -> None:
    data = cities.cities()
    data = dataclasses.replace(
        data, entity_labels=[f"the honourable {name}" for name in data.entities]
    )
    (model, _) = portfolios.bundled("link", [(cities.config_of(), 1)], data, tmp_path / "models")
    with service([model]) as client, visiting(browser, str(client.base_url)) as visit:
        page = visit.open("?head=person+2&relation=lives+in")
        page.get_by_role("button", name="Why the honourable city 2?").click()
        expect(page.get_by_role("heading", name="Why the honourable city 2")).to_be_visible()
        for width in (1440, 360):
            page.set_viewport_size({"width": width, "height": 900})
            answer = page.locator("svg .node text", has_text=re.compile("^the honourable city 2$"))
            expect(answer).to_be_visible()
            assert page.evaluate(CUT) == []

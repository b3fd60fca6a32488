"""The countries that ship with the package: what their facts promise, read from the files."""

from collections import Counter, defaultdict
from itertools import combinations

import pytest

from quatgraph.data.io import store

SAMPLES = store.SAMPLES
PARTS = ("train", "valid", "test")
TEXT = {part: (SAMPLES / f"countries_{part}.tsv").read_bytes().decode() for part in PARTS}
SPLIT = {part: [tuple(row.split("\t")) for row in text.splitlines()] for part, text in TEXT.items()}
FACTS = [fact for part in PARTS for fact in SPLIT[part]]

IN_EVERY_PART = {
    "borders",
    "capital",
    "continent",
    "currency",
    "driving side",
    "independent from",
    "language family",
    "large city in",
    "located on",
    "member of",
    "official language",
    "region",
}
RELATIONS = {*IN_EVERY_PART, "region in"}
TWO_CONTINENTS = {
    "Egypt": {"Africa", "Asia"},
    "Kazakhstan": {"Asia", "Europe"},
    "Russia": {"Europe", "Asia"},
    "Turkey": {"Asia", "Europe"},
}
NEIGHBOURS = {
    "Australia": 0,
    "Austria": 8,
    "Brazil": 9,  # French Guiana is France's: left out, as all that lies overseas
    "Canada": 1,
    "China": 14,
    "DR Congo": 9,
    "France": 8,
    "Germany": 9,
    "Hungary": 7,
    "Iceland": 0,
    "Iran": 7,
    "Japan": 0,
    "Mali": 7,
    "Niger": 7,
    "Portugal": 1,
    "Russia": 14,
    "Saudi Arabia": 7,
    "Serbia": 7,  # Kosovo is not in the graph
    "Sudan": 7,
    "Turkey": 8,
    "Zambia": 8,
}
MEMBERS = {
    "ASEAN": 10,
    "African Union": 54,
    "Arab League": 22,
    "BRICS": 9,
    "Benelux": 3,
    "CARICOM": 14,
    "CIS": 9,
    "Commonwealth of Nations": 56,
    "ECOWAS": 15,
    "European Union": 27,
    "G20": 19,
    "G7": 7,
    "Gulf Cooperation Council": 6,
    "Mercosur": 5,
    "NATO": 32,
    "Nordic Council": 5,
    "OECD": 38,
    "OPEC": 12,
    "Organisation of Islamic Cooperation": 57,
    "Pacific Islands Forum": 14,
    "SADC": 16,
    "Schengen Area": 29,
    "Visegrad Group": 4,
}


def tails(relation: str) -> dict[str, set[str]]:
    """The tails of each head that has any."""
    found = defaultdict(set)
    for head, name, tail in FACTS:
        if name == relation:
            found[head].add(tail)
    return dict(found)


def heads(relation: str) -> dict[str, set[str]]:
    """The heads of each tail that has any."""
    found = defaultdict(set)
    for head, name, tail in FACTS:
        if name == relation:
            found[tail].add(head)
    return dict(found)


def entities(facts: list[tuple[str, ...]]) -> set[str]:
    return {end for head, _, tail in facts for end in (head, tail)}


COUNTRIES = set(tails("continent"))


@pytest.mark.parametrize("part", PARTS)
def test_the_lines_are_sorted_and_whole(part: str) -> None:
    text = TEXT[part]
    assert "\r" not in text
    assert text.endswith("\n")
    lines = text.split("\n")[:-1]
    assert lines == sorted(lines)
    assert all(len(fact) == 3 for fact in SPLIT[part])
    assert all(name and name == name.strip() for fact in SPLIT[part] for name in fact)


def test_the_counts() -> None:
    assert {part: len(facts) for part, facts in SPLIT.items()} == {
        "train": 3804,
        "valid": 212,
        "test": 212,
    }
    assert len(entities(FACTS)) == 1536
    assert {relation for _, relation, _ in FACTS} == RELATIONS
    assert len(COUNTRIES) == 195


def test_no_fact_occurs_twice() -> None:
    assert len(set(FACTS)) == len(FACTS)
    assert all(head != tail for head, _, tail in FACTS)


@pytest.mark.parametrize("part", ["valid", "test"])
def test_every_queried_name_is_in_training(part: str) -> None:
    assert entities(SPLIT[part]) <= entities(SPLIT["train"])
    assert {relation for _, relation, _ in SPLIT[part]} == IN_EVERY_PART
    seen = {(relation, tail) for _, relation, tail in SPLIT["train"]}
    asked = {(relation, tail) for _, relation, tail in SPLIT[part]}
    assert {relation for relation, _ in asked - seen} <= {"borders", "capital"}


def test_a_border_has_two_sides_in_one_part() -> None:
    for facts in SPLIT.values():
        sides = {(head, tail) for head, relation, tail in facts if relation == "borders"}
        assert sides == {(tail, head) for head, tail in sides}


@pytest.mark.parametrize(("country", "count"), NEIGHBOURS.items())
def test_the_number_of_neighbours(country: str, count: int) -> None:
    assert country in COUNTRIES
    assert len(tails("borders").get(country, ())) == count


def test_neighbours_share_a_continent() -> None:
    continent = tails("continent")
    apart = {
        frozenset((country, other))
        for country, others in tails("borders").items()
        for other in others
        if not continent[country] & continent[other]
    }
    assert apart == {
        frozenset(("Colombia", "Panama")),
        frozenset(("Indonesia", "Papua New Guinea")),
    }


def test_a_country_lies_on_one_continent() -> None:
    continent = tails("continent")
    assert {name: found for name, found in continent.items() if len(found) > 1} == TWO_CONTINENTS
    assert set().union(*continent.values()) == {
        "Africa",
        "Asia",
        "Europe",
        "North America",
        "Oceania",
        "South America",
    }


def test_a_region_lies_on_the_continent_of_its_countries() -> None:
    continent, around = tails("continent"), tails("region in")
    region = tails("region")
    assert set(region) == COUNTRIES
    assert set(around) == set(heads("region"))
    assert all(len(found) == 1 for found in (*region.values(), *around.values()))
    for country, (name,) in region.items():
        assert around[name] <= continent[country]


def test_a_city_is_the_capital_of_one_country() -> None:
    assert all(len(found) == 1 for found in heads("capital").values())
    capital = tails("capital")
    # City states are their own capital; two capitals are disputed.
    assert COUNTRIES - set(capital) == {"Israel", "Monaco", "Palestine", "Vatican City"}
    several = {name for name, found in capital.items() if len(found) > 1}
    assert several == {"Bolivia", "Eswatini", "South Africa"}


def test_every_country_has_its_everyday_facts() -> None:
    for relation in ("currency", "driving side", "official language"):
        assert set(tails(relation)) == COUNTRIES
    assert {side: len(found) for side, found in heads("driving side").items()} == {
        "left": 54,
        "right": 141,
    }
    assert len(heads("currency")["Euro"]) == 25
    assert len(heads("official language")["Spanish"]) == 20
    assert len(heads("official language")["Portuguese"]) == 9


def test_the_members_of_organisations() -> None:
    members = heads("member of")
    assert {name: len(found) for name, found in members.items()} == MEMBERS
    assert set().union(*members.values()) <= COUNTRIES
    africa = {name for name, found in tails("continent").items() if "Africa" in found}
    assert members["African Union"] == africa
    assert members["Benelux"] | members["Visegrad Group"] <= members["European Union"]
    assert members["European Union"] - members["Schengen Area"] == {"Cyprus", "Ireland"}
    assert members["Arab League"] <= members["Organisation of Islamic Cooperation"]
    assert members["Gulf Cooperation Council"] <= members["Arab League"]


def test_a_large_city_lies_in_one_country_and_is_no_capital() -> None:
    city = tails("large city in")
    assert all(len(found) == 1 for found in city.values())
    assert set().union(*city.values()) <= COUNTRIES
    assert not set(city) & set(heads("capital"))


def test_a_city_lies_on_a_sea_of_its_country() -> None:
    located = tails("located on")
    seas = set().union(*(located.get(country, set()) for country in COUNTRIES))
    home = {city: country for country, found in tails("capital").items() for city in found}
    home |= {city: country for city, (country,) in tails("large city in").items()}
    assert set(located) <= COUNTRIES | set(home)
    for city, country in home.items():
        assert located.get(city, set()) & seas <= located.get(country, set())
    landlocked = COUNTRIES - set(located)
    assert len(landlocked) == 44
    assert {"Bolivia", "Chad", "Mongolia", "Switzerland"} <= landlocked


def test_a_country_was_not_its_rulers_ruler() -> None:
    ruler = tails("independent from")
    assert set(ruler) <= COUNTRIES
    assert not any(name in ruler.get(other, ()) for name in ruler for other in ruler[name])
    assert set(heads("independent from")) - COUNTRIES == {
        "Czechoslovakia",
        "Ottoman Empire",
        "Soviet Union",
        "Yugoslavia",
    }


def test_a_language_has_at_most_one_family() -> None:
    family = tails("language family")
    assert all(len(found) == 1 for found in family.values())
    assert set(heads("official language")) - set(family) == {"Hiri Motu", "Sango"}


def test_a_name_means_one_thing() -> None:
    kinds = {
        "country": COUNTRIES,
        "city": set(heads("capital")) | set(tails("large city in")),
        "language": set(heads("official language")) | set(heads("language family")),
        "currency": set(heads("currency")),
        "organisation": set(heads("member of")),
        "water": set(heads("located on")),
        "region": set(heads("region")),
        "continent": set(heads("continent")),
        "side": set(heads("driving side")),
        "former state": set(heads("independent from")) - COUNTRIES,
    }
    for first, second in combinations(kinds.values(), 2):
        assert not first & second
    assert set().union(*kinds.values()) == entities(FACTS)


def test_a_river_joins_two_cities() -> None:
    times = Counter(tail for _, relation, tail in FACTS if relation == "located on")
    assert min(times.values()) > 1

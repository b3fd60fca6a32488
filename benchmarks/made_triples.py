"""Generated knowledge graphs."""

import numpy as np

from quatgraph.data.link import Triples, from_names


def families(seed: int, couples: int = 12) -> Triples:
    """Relatives over four generations, each fact that follows from who is whose parent."""
    random = np.random.default_rng(seed)
    named: set[tuple[str, str, str]] = set()
    parents: dict[str, tuple[str, str]] = {}
    women, men = ([f"{kind} 0.{i}" for i in range(couples)] for kind in ("woman", "man"))
    for generation in range(1, 5):
        pairs = list(zip(women, random.permutation(men).tolist(), strict=False))
        women, men = [], []
        for wife, husband in pairs:
            named |= {(wife, "married to", husband), (husband, "married to", wife)}
            for _ in range(random.integers(1, 5) if generation < 4 else 0):
                own, kind = ((women, "woman"), (men, "man"))[random.integers(2)]
                own.append(f"{kind} {generation}.{len(own)}")
                parents[own[-1]] = wife, husband
    kin: dict[str, set[tuple[str, str]]] = {"mother": set(), "father": set()}
    for child, (mother, father) in parents.items():
        kin["mother"].add((child, mother))
        kin["father"].add((child, father))
    up = kin["mother"] | kin["father"]
    down = {(b, a) for a, b in up}
    kin["sister or brother"] = {(a, b) for a, b in _follow(up, down) if a != b}
    kin["grandparent"] = _follow(up, up)
    kin["aunt or uncle"] = _follow(up, kin["sister or brother"])
    kin["cousin"] = _follow(kin["aunt or uncle"], down)
    for relation, ends in kin.items():
        named |= {(a, relation, b) for a, b in ends}
    return from_names(sorted(named))


def _follow(first: set[tuple[str, str]], then: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Pairs that two steps connect."""
    after: dict[str, list[str]] = {}
    for start, end in then:
        after.setdefault(start, []).append(end)
    return {(start, end) for start, middle in first for end in after.get(middle, ())}


def world(seed: int) -> Triples:
    """Countries, their people, languages and leagues, as in an encyclopedia: half of the relations
    are symmetric, few entities are in most triples, and what is near goes together."""
    random = np.random.default_rng(seed)
    sizes = {"country": 90, "person": 280, "language": 40, "league": 30, "trade": 40}
    place = {kind: random.random((size, 2)) for kind, size in sizes.items()}
    weight = {kind: random.pareto(1.2, size=size) + 0.2 for kind, size in sizes.items()}
    named: set[tuple[str, str, str]] = set()

    def link(relation: str, kinds: str, count: int, near: float, both: bool = False) -> None:
        head, tail = kinds.split()
        gap = np.square(place[head][:, None] - place[tail]).sum(axis=-1)
        chance = weight[head][:, None] * weight[tail] * np.exp(-gap / near)
        if both:
            np.fill_diagonal(chance, 0.0)
        total = chance / chance.sum()
        drawn = random.choice(chance.size, size=count, replace=False, p=total.ravel())
        for a, b in zip(*np.divmod(drawn, chance.shape[1]), strict=True):
            ends = f"{head} {a}", f"{tail} {b}"
            named.add((ends[0], relation, ends[1]))
            if both:
                named.add((ends[1], relation, ends[0]))

    link("has embassy in", "country country", 900, near=1.0, both=True)
    link("borders", "country country", 160, near=0.01, both=True)
    link("is in", "country league", 400, near=0.2)
    link("speaks", "country language", 150, near=0.02)
    link("is citizen of", "person country", 330, near=0.05)
    link("knows", "person language", 500, near=0.05)
    link("works as", "person trade", 700, near=0.3)
    link("is married to", "person person", 60, near=0.02, both=True)
    link("met", "person person", 300, near=0.1, both=True)
    return from_names(sorted(named))

"""Answers about triples."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from quatgraph.data.splits import PARTS
from quatgraph.errors import UserError
from quatgraph.predictors.predictions import Links
from quatgraph.predictors.queries import OPEN, parse_queries
from quatgraph.serve.answers.base import (
    Answers,
    Keywords,
    Reply,
    check_explained,
    encode,
    exact,
)
from quatgraph.serve.drawing import draw_around

MAX_ANSWERS = 10_000
"""Answers of one reply, at most."""


class LinkAnswers(Answers):
    """Completes and scores triples; the queries of several requests are one product."""

    task = "link"
    kinds = ("entities", "relations")

    def _reply(self, requests: Sequence[Keywords], *, explain: bool) -> list[bytes | Exception]:
        groups: dict[tuple[Any, ...], list[tuple[int, Tensor]]] = {}
        replies: list[bytes | Exception] = [b""] * len(requests)
        for place, keywords in enumerate(requests):
            top, known = keywords.get("top", 10), keywords.get("known", "mark")
            wanted = explain or bool(keywords.get("explain"))
            try:
                rows = self._parse(keywords)
                self._check_size(rows, top, wanted)
            except Exception as error:
                replies[place] = error
                continue
            groups.setdefault((top, known, wanted), []).append((place, rows))
        for options, members in groups.items():
            try:
                found = self._complete(options, members)
            except Exception:  # of one of them: the others have theirs all the same
                found = [reply for one in members for reply in self._complete_one(options, one)]
            for place, reply in found:
                replies[place] = reply
        return replies

    def _complete_one(
        self, options: tuple[Any, ...], member: tuple[int, Tensor]
    ) -> Sequence[tuple[int, bytes | Exception]]:
        try:
            return self._complete(options, [member])
        except Exception as error:
            return [(member[0], error)]

    def _parse(self, keywords: Keywords) -> Tensor:
        """The numbers of the queries of a request, ``(Q, 3)``."""
        single = [keywords.get(name) for name in ("head", "relation", "tail")]
        queries = keywords.get("queries")
        if queries is not None and single != [None] * 3:
            raise UserError("give a single query or a list of queries, not both")
        if queries is None and single == [None] * 3:
            raise UserError(
                "give a query: a relation, and a head or a tail, such as "
                f"{encode(self._example()).decode()}"
            )
        return parse_queries([single] if queries is None else queries, self.predictor.triples)

    def _check_size(self, rows: Tensor, top: int, explain: bool) -> None:
        if len(rows) * top <= MAX_ANSWERS and not explain:
            return
        num_open = int((rows == OPEN).any(dim=1).sum())
        count = len(rows) - num_open + num_open * min(top, self.predictor.triples.num_entities)
        if count > MAX_ANSWERS:
            raise UserError(
                f"a reply has at most {MAX_ANSWERS:,} answers, and these would be {count:,}: send "
                "fewer queries or lower top"
            )
        if explain:
            check_explained(count)

    def _complete(
        self, options: tuple[Any, ...], members: Sequence[tuple[int, Tensor]]
    ) -> Sequence[tuple[int, bytes | Exception]]:
        top, known, explain = options
        every = torch.cat([rows for _, rows in members])
        links = self.predictor.predict_rows(every, top=top, known=known)
        if explain:
            links = self.predictor.explain(links)
        ends = torch.tensor([len(rows) for _, rows in members]).cumsum(0)
        cuts = [0, *torch.searchsorted(links.query, ends).tolist()]
        starts, noted = [0, *ends.tolist()], bool(self.predictor.notes_on(every))
        answers = list(self._answers(links))
        found = list[tuple[int, bytes | Exception]]()
        for number, (place, rows) in enumerate(members):
            own = answers[cuts[number] : cuts[number + 1]]
            for answer in own:
                answer["query"] -= starts[number]
            notes = self.predictor.notes_on(rows) if noted else []
            found.append((place, encode({"answers": own, "notes": notes})))
        return found

    def _answers(self, links: Links) -> Sequence[Reply]:
        found = []
        rows = zip(links.rows(), links.query.tolist(), links.scores.tolist(), strict=True)
        for place, (row, query, score) in enumerate(rows):
            row |= {"query": query, "score": exact(score)}
            # What a row has must not depend on the other requests of a batch.
            for key in ("rank",) if row["predicted"] == "both" else ("tail_rank", "head_rank"):
                row.pop(key, None)
            if links.support is not None:
                row["support"] = [one._asdict() for one in links.support[place]]
            found.append(row)
        return found

    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        raise NotImplementedError  # all requests are answered together

    def _example(self) -> Reply:
        """A held-out query with some known answers, so that its reply shows both."""
        graph = self.predictor.triples
        known = Counter(map(tuple, graph.train[:, :2].tolist()))
        queries = (graph.test if len(graph.test) else graph.train)[:, :2].tolist()
        head, relation = max(queries, key=lambda query: min(3, known[tuple(query)]))
        return {
            "head": self.index("entities").name(head),
            "relation": self.index("relations").name(relation),
        }

    def _names(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        graph = self.predictor.triples
        if kind == "entities":
            return graph.entities, graph.entity_labels
        return graph.relations, graph.relation_labels

    def draw(self, name: str, hops: int, limit: int) -> Reply:
        graph = self.predictor.triples
        parts = {part: getattr(graph, part) for part in PARTS}
        triples = self._cache.get("triples", lambda: torch.cat(list(parts.values())))
        edges = self._cache.get("edges", lambda: triples[:, [0, 2]].mT.numpy())
        nodes, chosen = draw_around(edges, graph.num_entities, graph.entity(name), hops, limit)
        ends = list(accumulate(map(len, parts.values())))
        ids, labels, index = graph.entities, graph.entity_labels, self.index("entities")
        return {
            "nodes": [
                {"id": ids[n], "label": labels[n], "name": index.name(n), "hop": hop}
                for n, hop in nodes
            ],
            "edges": [
                {
                    "source": graph.entities[h],
                    "target": graph.entities[t],
                    "relation": graph.relation_labels[r],
                    "split": PARTS[bisect_right(ends, edge)],
                }
                for edge in chosen
                for h, r, t in [triples[edge].tolist()]
            ],
        }

"""Answers about triples."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.predictors.predictions import Links
from quatgraph.predictors.queries import parse_queries
from quatgraph.serve.answers.base import Answers, Keywords, Reply, encode, exact
from quatgraph.serve.drawing import draw_around

OPTIONS = ("top", "known", "explain")


class LinkAnswers(Answers):
    """Completes and scores triples; the queries of several requests are one product."""

    task = "link"
    kinds = ("entities", "relations")

    def _reply(self, requests: Sequence[Keywords], *, explain: bool) -> list[bytes | Exception]:
        groups: dict[tuple[Any, ...], list[tuple[int, Tensor]]] = {}
        replies: list[bytes | Exception] = [b""] * len(requests)
        for place, keywords in enumerate(requests):
            options = tuple(keywords.get(name) for name in OPTIONS[:2])
            try:
                rows = self._parse(keywords)
            except UserError as mistake:
                replies[place] = mistake
                continue
            wanted = explain or bool(keywords.get("explain"))
            groups.setdefault((*options, wanted), []).append((place, rows))
        for options, members in groups.items():
            try:
                for place, reply in self._complete(options, members):
                    replies[place] = encode(reply)
            except Exception as error:
                for place, _ in members:
                    replies[place] = error
        return replies

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

    def _complete(
        self, options: tuple[Any, ...], members: Sequence[tuple[int, Tensor]]
    ) -> Sequence[tuple[int, Reply]]:
        top, known, explain = options
        given = {name: value for name, value in (("top", top), ("known", known)) if value}
        every = torch.cat([rows for _, rows in members])
        links = self.predictor.predict_rows(every, **given)
        if explain:
            links = self.predictor.explain(links)
        ends = torch.tensor([len(rows) for _, rows in members]).cumsum(0)
        cuts = [0, *torch.searchsorted(links.query, ends).tolist()]
        starts, noted = [0, *ends.tolist()], bool(self.predictor.notes_on(every))
        answers = list(self._answers(links))
        found = []
        for number, (place, rows) in enumerate(members):
            own = answers[cuts[number] : cuts[number + 1]]
            for answer in own:
                answer["query"] -= starts[number]
            notes = self.predictor.notes_on(rows) if noted else []
            found.append((place, {"answers": own, "notes": notes}))
        return found

    def _answers(self, links: Links) -> Sequence[Reply]:
        found = []
        rows = zip(links.rows(), links.query.tolist(), links.scores.tolist(), strict=True)
        for place, (row, query, score) in enumerate(rows):
            row |= {"query": query, "score": exact(score)}
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
            "head": _name(head, graph.entities, graph.entity_labels),
            "relation": _name(relation, graph.relations, graph.relation_labels),
        }

    def _names(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        graph = self.predictor.triples
        if kind == "entities":
            return graph.entities, graph.entity_labels
        return graph.relations, graph.relation_labels

    def draw(self, name: str, hops: int, limit: int) -> Reply:
        graph = self.predictor.triples
        triples = torch.cat((graph.train, graph.valid, graph.test))
        edges = self._cache.get("edges", lambda: triples[:, [0, 2]].mT.numpy())
        nodes, chosen = draw_around(edges, graph.num_entities, graph.entity(name), hops, limit)
        sizes = (len(graph.train), len(graph.valid), len(graph.test))
        parts = ["train"] * sizes[0] + ["valid"] * sizes[1] + ["test"] * sizes[2]
        return {
            "nodes": [
                {"id": graph.entities[n], "label": graph.entity_labels[n], "hop": hop}
                for n, hop in nodes
            ],
            "edges": [
                {
                    "source": graph.entities[h],
                    "target": graph.entities[t],
                    "relation": graph.relation_labels[r],
                    "split": parts[edge],
                }
                for edge in chosen
                for h, r, t in [triples[edge].tolist()]
            ],
        }


def _name(number: int, ids: list[str], labels: list[str]) -> str:
    return labels[number] if labels.count(labels[number]) == 1 else ids[number]

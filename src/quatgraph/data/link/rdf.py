"""Triples in RDF: N-Triples and Turtle, read by pyoxigraph (the extra ``[rdf]``).

IRIs become ids. Blank nodes stay, and those without a name get one. Literals are no entities and
are left out, but a literal ``rdfs:label`` names its subject: in English if there is a choice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from quatgraph.data.io.messages import count_noun
from quatgraph.data.link.names import NamedTriples
from quatgraph.errors import UserError

_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ANONYMOUS = re.compile("_:[a-f][0-9a-f]{19,31}")
"""The random names, without leading zeros, that pyoxigraph gives blank nodes without one."""
_POSITION = re.compile(r"Parser error .*?\d: ")


@dataclass(slots=True)
class RdfReader:
    """Reads the RDF files of one knowledge graph.

    Attributes:
        labels: Label of each IRI that has one.
        notes: What was left out: sentences for the user.
    """

    labels: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _ranks: dict[str, int] = field(default_factory=dict)
    _anonymous: Iterator[int] = field(default_factory=count)

    def read(self, content: bytes, where: str, suffix: str) -> NamedTriples:
        """Reads one file; ``suffix`` is ``.nt`` or ``.ttl``."""
        rdf = _import_pyoxigraph(where)
        formats = {".nt": rdf.RdfFormat.N_TRIPLES, ".ttl": rdf.RdfFormat.TURTLE}
        heads: list[str] = []
        relations: list[str] = []
        tails: list[str] = []
        blanks: dict[str, str] = {}
        literals = labels = 0
        try:
            for statement in rdf.parse(content, formats[suffix]):
                head, relation, tail = statement.subject, statement.predicate, statement.object
                if isinstance(tail, rdf.NamedNode | rdf.BlankNode):
                    heads.append(self._name(head, blanks))
                    relations.append(relation.value)
                    tails.append(self._name(tail, blanks))
                elif relation.value == _LABEL and isinstance(tail, rdf.Literal):
                    labels += 1
                    self._add_label(self._name(head, blanks), tail)
                else:
                    literals += 1
        except SyntaxError as error:
            reason = _POSITION.sub("", error.msg)
            raise UserError(
                f"{where} line {error.lineno}, column {error.offset} is not valid "
                f"{formats[suffix].name} ({reason}); correct the statement"
            ) from error
        if not heads:
            left_out = f": it has {count_noun(literals + labels, 'literal')}"
            raise UserError(
                f"{where} has no triples of two entities{left_out if literals + labels else ''}; "
                "write one statement per triple: head, relation and tail as IRIs"
            )
        if literals:
            verb = "is" if literals == 1 else "are"
            self.notes.append(
                f"{count_noun(literals, 'literal')} of {where} {verb} left out: only IRIs and "
                "blank nodes are entities"
            )
        return NamedTriples(where, (heads, relations, tails))

    def _name(self, node: Any, blanks: dict[str, str]) -> str:
        text = str(node)
        if not text.startswith("_:"):
            return text[1:-1]
        if not _ANONYMOUS.fullmatch(text):
            return text
        # Not at random: the names are part of the digest of the data.
        if text not in blanks:
            blanks[text] = f"_:anonymous{next(self._anonymous)}"
        return blanks[text]

    def _add_label(self, name: str, literal: Any) -> None:
        language = (literal.language or "").casefold()
        rank = 0 if language == "en" else 1 if language.startswith("en-") else 3 - (not language)
        label = literal.value.strip()
        if label and rank < self._ranks.get(name, 9):
            self.labels[name], self._ranks[name] = label, rank


def _import_pyoxigraph(where: str) -> Any:
    try:
        import pyoxigraph
    except ImportError as error:
        raise UserError(
            f"{where} is RDF, which needs pyoxigraph; install it with `pip install quatgraph[rdf]`"
        ) from error
    return pyoxigraph

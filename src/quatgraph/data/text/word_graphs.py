"""A graph for each document: its words, joined where they stand close together."""

import numpy as np

from quatgraph.data.graph.collection import GraphLists, Graphs
from quatgraph.data.text.documents import Documents
from quatgraph.errors import Mistake

NO_WORD = ""
"""The tag of the one node of a document without words; it comes after all words."""


def word_graphs(documents: Documents, window: int = 3) -> Graphs:
    """The graphs of all documents, for all that takes :class:`Graphs`.

    A node is a word of the document, in the order of first appearance; its tag is the word's
    number. Two different words are joined, once, if some window holds both: if they stand fewer
    than ``window`` words apart somewhere. A document without words has one node, which has
    the tag ``NO_WORD``, so that every graph has a node.

    Args:
        documents: The documents.
        window: How many words in a row a window holds, at least 1.

    Example:
        >>> from quatgraph.data.text import from_list
        >>> graphs = word_graphs(from_list(["one fish two fish", "red", "blue fish"]), window=2)
        >>> graphs
        Graphs('texts', 3 graphs, 6 nodes, 3 edges)
        >>> [graphs.tag_names[tag] for tag in graphs.tags]
        ['one', 'fish', 'two', 'red', 'blue', 'fish']
    """
    if window < 1:
        raise Mistake(f"a window must hold at least 1 word, got {window}")
    tag_names = [*documents.vocabulary, NO_WORD]
    start = documents.ptr.numpy()
    lengths = np.diff(start)
    tokens = np.insert(documents.tokens.numpy(), start[:-1][lengths == 0], len(tag_names) - 1)
    owner = np.repeat(np.arange(len(documents)), np.maximum(lengths, 1))
    key, first, place = np.unique(
        owner * len(tag_names) + tokens, return_index=True, return_inverse=True
    )
    # A word's nodes are numbered by where in the corpus it first stands in each document.
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    node = number[place]
    sender, receiver = [node[:0]], [node[:0]]
    for apart in range(1, min(window, lengths.max(initial=0))):
        together = owner[apart:] == owner[:-apart]
        sender.append(node[:-apart][together])
        receiver.append(node[apart:][together])
    owners, tags = np.divmod(key[order], len(tag_names))
    return GraphLists(
        name=documents.name,
        sizes=np.bincount(owners, minlength=len(documents)),
        sender=np.concatenate(sender),
        receiver=np.concatenate(receiver),
        y=documents.y.numpy(),
        label_names=documents.label_names,
        tags=tags,
        tag_names=tag_names,
        graph_ids=documents.ids,
    ).merge()

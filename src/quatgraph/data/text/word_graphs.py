"""Word co-occurrence graphs of documents."""

from dataclasses import replace

import numpy as np

from quatgraph.data.graph.collection import Graphs, merge_graphs
from quatgraph.data.text.documents import Documents
from quatgraph.errors import UserError

NO_WORD = ""
"""Tag of the only node of an empty document; it comes after all words."""


def word_graphs(documents: Documents, window: int = 3) -> Graphs:
    """The co-occurrence graph of each document.

    Nodes are the distinct words in the order of first appearance; a node's tag is the word's
    number. Two words share an edge if some window contains both. A document without words has one
    node with the tag ``NO_WORD``.

    Args:
        window: Number of consecutive words in a window, at least 1.

    Example:
        >>> from quatgraph.data.text import from_list
        >>> graphs = word_graphs(from_list(["one fish two fish", "red", "blue fish"]), window=2)
        >>> graphs
        Graphs('texts', 3 graphs, 6 nodes, 3 edges)
        >>> [graphs.tag_names[tag] for tag in graphs.tags]
        ['one', 'fish', 'two', 'red', 'blue', 'fish']
    """
    if window < 1:
        raise UserError(f"a window must hold at least 1 word, got {window}")
    tag_names = [*documents.vocabulary, NO_WORD]
    ptr = documents.ptr.numpy()
    lengths = np.diff(ptr)
    tokens = np.insert(documents.tokens.numpy(), ptr[:-1][lengths == 0], len(tag_names) - 1)
    batch = np.repeat(np.arange(len(documents)), np.maximum(lengths, 1))
    key, first, place = np.unique(
        batch * len(tag_names) + tokens, return_index=True, return_inverse=True
    )
    # Nodes are numbered by the first appearance of their word in their document.
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    node = number[place]
    sender, receiver = [node[:0]], [node[:0]]
    for apart in range(1, min(window, lengths.max(initial=0))):
        together = batch[apart:] == batch[:-apart]
        sender.append(node[:-apart][together])
        receiver.append(node[apart:][together])
    node_batch, tags = np.divmod(key[order], len(tag_names))
    graphs = merge_graphs(
        name=documents.name,
        sizes=np.bincount(node_batch, minlength=len(documents)),
        edges=(np.concatenate(sender), np.concatenate(receiver)),
        labels=(documents.y.numpy(), documents.label_names),
        tags=(tags, tag_names),
    )
    return replace(graphs, graph_ids=documents.ids)

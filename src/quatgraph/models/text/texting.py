"""TextING, the real counterpart of TextQGNN."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers import GatedGNNConv
from quatgraph.models.text.textqgnn import GatedOptions, Lift, TextQGNN


@dataclass(frozen=True, slots=True, kw_only=True)
class TextINGOptions(GatedOptions):
    name: Literal["texting"] = "texting"

    @property
    def lift(self) -> Lift:
        """Real word vectors need none: their map is learned anyway."""
        return "learned"


class TextING(TextQGNN):
    """`TextING <https://arxiv.org/abs/2004.13826>`_, as TextQGNN with real matrices of the same
    width and four times the weights. ``in_channels`` can be any number."""

    Options = TextINGOptions
    gated = GatedGNNConv

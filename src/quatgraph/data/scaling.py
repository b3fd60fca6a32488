"""Feature scaling that is fitted in training and applied to later graphs."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from quatgraph.errors import UserError

Kind = Literal["none", "row", "standard"]
KINDS: tuple[Kind, ...] = ("none", "row", "standard")
BLOCK = 1 << 24
"""Numbers that are held in float64 at once."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """How features are scaled before a model sees them.

    ``"row"`` divides each row by its sum, as usual for word counts; ``"standard"`` gives each
    column mean 0 and variance 1.

    Attributes:
        width: Number of features.
        mean: Mean of each column; empty unless ``"standard"``.
        std: Standard deviation of each column, 0 for a constant one; empty unless ``"standard"``.
    """

    kind: Kind
    width: int
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @classmethod
    def fit(cls, x: Tensor, kind: Literal["auto", "none", "row", "standard"] = "auto") -> Self:
        """Fits the scaling to ``x`` ``(N, F)``.

        ``"auto"`` scales the rows of what looks like word counts, non-negative and mostly zeros,
        and standardizes anything else: a row of ages and incomes has no meaningful sum.

        Example:
            >>> Scaling.fit(torch.tensor([[1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])).kind
            'row'
            >>> Scaling.fit(torch.tensor([[35.0, 50_000.0], [61.0, 20_000.0]])).kind
            'standard'
        """
        negative = bool((x < 0).any())
        if kind == "auto":
            counts = not negative and int(x.count_nonzero()) <= x.numel() // 2
            kind = "row" if counts else "standard"
        if kind not in KINDS:
            raise UserError(f"there is no scaling {kind!r}; choose auto, {', '.join(KINDS)}")
        if kind == "row":
            _refuse_negative(negative)
        if kind != "standard":
            return cls(kind, x.size(1))
        mean, std = _moments(x)
        # Rounding leaves a constant column a tiny deviation, which would blow it up.
        std[x.amax(dim=0) == x.amin(dim=0)] = 0
        return cls(kind, x.size(1), tuple(mean.tolist()), tuple(std.tolist()))

    def apply(self, x: Tensor) -> Tensor:
        """Scales ``x`` ``(N, width)``; zero rows stay zero, constant columns become zero."""
        if x.dim() != 2 or x.size(1) != self.width:
            raise UserError(
                f"the features have shape {tuple(x.shape)} but the model was trained with "
                f"{self.width} features a node; give the same features in the same order"
            )
        if self.kind == "none":
            return x
        if self.kind == "row":
            _refuse_negative(bool((x < 0).any()))
            total = x.sum(dim=1, keepdim=True)
            return torch.where(total > 0, x / total, 0.0)
        moments = (self.mean, self.std)
        mean, std = (torch.tensor(v, dtype=torch.float64, device=x.device) for v in moments)
        scaled = torch.empty_like(x)
        for rows, made in zip(_row_blocks(x), _row_blocks(scaled), strict=True):
            made.copy_(torch.where(std > 0, (rows.double() - mean) / std, 0.0))
        return scaled

    def to_dict(self) -> dict[str, Any]:
        """The scaling as values that JSON can hold."""
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The scaling that :meth:`to_dict` wrote."""
        try:
            kind, width = values["kind"], int(values["width"])
            mean, std = (tuple(float(v) for v in values[key]) for key in ("mean", "std"))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"the stored feature scaling is damaged ({error!r})") from error
        moments = width if kind == "standard" else 0
        if kind not in KINDS or len(mean) != moments or len(std) != moments:
            raise UserError(f"the stored feature scaling is damaged (kind {kind!r}, width {width})")
        return cls(kind, width, mean, std)


def _row_blocks(x: Tensor) -> tuple[Tensor, ...]:
    """The rows in blocks, so that a copy of one in float64 is small."""
    return x.split(max(1, BLOCK // max(1, x.size(1))))


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column, in float64; of several blocks of rows by their
    sums."""
    blocks = _row_blocks(x)
    if len(blocks) <= 1:
        wide = x.double()
        return wide.mean(dim=0), wide.std(dim=0, correction=0)
    mean = torch.stack([block.double().sum(dim=0) for block in blocks]).sum(dim=0) / len(x)
    squares = [(block.double() - mean).square_().sum(dim=0) for block in blocks]
    return mean, (torch.stack(squares).sum(dim=0) / len(x)).sqrt()


def _refuse_negative(negative: bool) -> None:
    if negative:
        raise UserError("scaling by rows needs features without negative values; use 'standard'")

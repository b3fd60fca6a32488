"""Quaternion layers on plain tensors."""

from quatgraph.layers.attention_readout import AttentionReadout
from quatgraph.layers.conv import QGNNConv, SimplifiedQGNNConv
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.gated import GatedGNNConv, GatedQGNNConv
from quatgraph.layers.linear import QuaternionLinear
from quatgraph.layers.norm import BatchNorm
from quatgraph.layers.readout import LayerwiseReadout
from quatgraph.layers.residual import ResidualQGNNConv

__all__ = [
    "AttentionReadout",
    "BatchNorm",
    "GatedGNNConv",
    "GatedQGNNConv",
    "LayerwiseReadout",
    "QGNNConv",
    "QuaternionDropout",
    "QuaternionLinear",
    "ResidualQGNNConv",
    "SimplifiedQGNNConv",
]

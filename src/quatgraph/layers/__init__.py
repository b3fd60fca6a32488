"""Quaternion layers on plain tensors."""

from quatgraph.layers.attention_readout import AttentionReadout
from quatgraph.layers.conv import QGNNConv, SimplifiedQGNNConv
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.gat import QGATConv
from quatgraph.layers.gated import GatedGNNConv, GatedQGNNConv
from quatgraph.layers.gin import QGINConv
from quatgraph.layers.linear import QuaternionLinear
from quatgraph.layers.norm import BatchNorm
from quatgraph.layers.phm import PHMLinear
from quatgraph.layers.readout import LayerwiseReadout
from quatgraph.layers.residual import ResidualQGNNConv
from quatgraph.layers.sage import QSAGEConv

__all__ = [
    "AttentionReadout",
    "BatchNorm",
    "GatedGNNConv",
    "GatedQGNNConv",
    "LayerwiseReadout",
    "PHMLinear",
    "QGATConv",
    "QGINConv",
    "QGNNConv",
    "QSAGEConv",
    "QuaternionDropout",
    "QuaternionLinear",
    "ResidualQGNNConv",
    "SimplifiedQGNNConv",
]

"""Data that the tests of several modules learn from."""

from karate import graph, karate

__all__ = ["graph", "karate"]

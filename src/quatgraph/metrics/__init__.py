"""Metrics on tensors: of classes, of ranked entities, and reports of all of them."""

"""Metrics on tensors: accuracy and losses of classes, ranks of entities (MRR, Hits@k)."""

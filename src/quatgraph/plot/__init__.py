"""Figures of records: the numbers of each are gathered first, then drawn."""

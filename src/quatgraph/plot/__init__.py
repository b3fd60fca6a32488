"""Figures of records. Each is a dataclass of numbers that draws itself."""

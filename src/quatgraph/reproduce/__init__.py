"""The paper's tables, filled from records."""

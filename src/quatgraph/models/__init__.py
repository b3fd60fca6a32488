"""The paper's models, one file per task."""

"""The methods the paper's models are compared with, one file per task."""

"""Tools of the maintainers: pages rendered from records, and studies of results."""

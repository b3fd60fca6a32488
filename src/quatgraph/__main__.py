"""``python -m quatgraph``, for places where nothing is installed."""

from quatgraph.cli import main

if __name__ == "__main__":
    main()

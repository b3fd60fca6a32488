"""The command ``quatgraph``; ``python -m quatgraph`` where nothing is installed."""

from quatgraph.signals import exit_on_signals


def main() -> None:
    exit_on_signals()  # before anything slow is imported
    from quatgraph.cli import main as run

    run()


if __name__ == "__main__":
    main()

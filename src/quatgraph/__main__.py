"""The command ``quatgraph``, also ``python -m quatgraph``."""

from quatgraph.signals import exit_now, install_handler


def main() -> None:
    install_handler(exit_now)  # first, so that a signal during imports prints no traceback
    from quatgraph.cli import main as run_cli

    run_cli()


if __name__ == "__main__":
    main()

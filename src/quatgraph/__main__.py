"""The command ``quatgraph``; ``python -m quatgraph`` where nothing is installed."""

import os
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    # Before anything else is imported: a signal ends the process without a traceback.
    for number in SIGNALS:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _leave)
    from quatgraph.cli import main as run

    run()


def _leave(number: int, frame: object) -> None:
    try:
        os.write(2, b"quatgraph: interrupted\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()

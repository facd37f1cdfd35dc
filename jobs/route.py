"""The main job: route every source of a configuration until it is drained or told to stop.

    spark-submit jobs/route.py --config conf/demo.yaml

Prints one line per batch. SIGTERM and Ctrl-C let the batch under way finish.
"""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

import routing
from routing.engine import Engine
from routing.errors import RoutingError
from routing.model import Report


def main(arguments: list[str] | None = None) -> int:
    """Run the job; the exit code is 0 if every source was drained or the job was told to stop."""
    parser = argparse.ArgumentParser(description="Route every source of a configuration.")
    parser.add_argument("--config", required=True, help="a YAML file, such as conf/demo.yaml")
    parser.add_argument("--accept-restored", action="store_true", help="go on although tables were set back")
    options = parser.parse_args(arguments)

    def say(report: Report) -> None:
        print(report, flush=True)

    try:
        run(routing.open(None, options.config, on_batch=say, accept_restored=options.accept_restored))
    except RoutingError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def run(engine: Engine) -> None:
    """Start the engine's queries and wait for them; a signal stops them after the batch that they are in."""
    running = engine.start()

    def stop(signum: int, frame: FrameType | None) -> None:
        running.ask_to_stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    print(f"routing {', '.join(engine.config.sources)} (trigger: {engine.config.trigger})", flush=True)
    try:
        print("drained" if running.await_termination() else "stopped", flush=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())

"""The command line that ordeals share."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from tests.faults.server_process import SOURCE


def options_of(description: str | None, **numbers: float) -> argparse.Namespace:
    """The options `numbers` with their defaults, `--seed`, and `--program` as the command of the program."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("--program", type=Path, help="a frozen program, instead of the source")
    options = parser.parse_args()
    options.program = (options.program.resolve(),) if options.program else SOURCE
    return options

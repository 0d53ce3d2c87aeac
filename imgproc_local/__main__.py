"""`python -m imgproc_local`: the same program as the `imgproc-local` command, and its worker processes.

Worker processes do not load the command line, so that they start faster.
"""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ["codec-worker"]:
        from imgproc_local.engine import workers

        folder, parent_pid = sys.argv[2:]
        workers.run_worker(folder, int(parent_pid))
    elif sys.argv[1:2] == ["model-test"]:
        from imgproc_local.vision.llm import selftest

        selftest.run_child(int(sys.argv[2]))
    elif sys.argv[1:2] == ["archive-cluster"]:
        from imgproc_local.archive import cluster

        cluster.serve(int(sys.argv[2]), int(sys.argv[3]))
    else:
        from imgproc_local import cli

        cli.main()


if __name__ == "__main__":
    main()

"""What torchrun starts on every host, once per block: `torchrun --nnodes 2 --nproc-per-node 2 ... -m repro.worker RECIPE`.

The words behind it are those of `repro run`, the same on all hosts. See docs/hosts.md.
"""

from __future__ import annotations

import sys

from repro.hosts.world import found_world


def main() -> None:
    """`repro run` as one of the processes of torchrun."""
    if found_world() is None:
        sys.stderr.write(
            "repro: repro.worker is started by torchrun, and this process is not: give\n"
            "  torchrun --nnodes N --nproc-per-node M --rdzv-backend c10d --rdzv-endpoint HOST:PORT -m repro.worker RECIPE\n"
            "on each host, or `repro run RECIPE --launcher torchrun --nnodes N --rdzv HOST:PORT`\n"
        )
        sys.exit(2)
    import cli
    from repro.hosts.elastic import note_end

    sys.argv[1:1] = ["run"]
    try:
        cli.main()
    except SystemExit as end:
        note_end(end.code if isinstance(end.code, int) else 1)
        raise


if __name__ == "__main__":
    main()

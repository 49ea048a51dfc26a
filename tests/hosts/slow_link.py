"""What the simulator says of slow links between hosts, beside what blocks in two network namespaces take over such links.

    python -m tests.hosts.slow_link [--delay-ms 0 10] [--rates 80 400]

    host a == vxa  wxa [delay line] wxb  vxb == host b     tc tbf at vxa and vxb limits what each host sends

Blocks wait instead of computing (40 ms forward, 40 ms replay, 80 ms backward), so that a small machine can tell; messages
are of true size. Prints one JSON row per method, rate and delay; exit 1 where the simulator is off by more than 10 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.hosts.namespaces import PORT, A, Hosts, ended, long_cable, why_not

LIMIT = 0.10
METHODS: tuple[dict[str, Any], ...] = (
    {"name": "bp"},
    {"name": "gpipe", "micro": 4},
    {"name": "fdg"},
    {"name": "dsp", "staleness": "p=1 q=1"},
)


@dataclass(frozen=True)
class Experiment:
    """K blocks on two hosts, `message` bytes a batch between blocks, `times`: seconds of a block's actions."""

    blocks: int = 4
    message: int = 1_000_000
    batches: int = 20
    times: tuple[float, float, float] = (0.04, 0.04, 0.08)
    methods: tuple[dict[str, Any], ...] = METHODS

    def run(
        self, hosts: Hosts, rates: Sequence[float], delay: float, timeout: float = 170
    ) -> list[dict[str, Any]]:
        """A row per rate (Mbit/s) and method, with frames `delay` seconds late."""
        asked = {
            "blocks": self.blocks, "message": self.message, "batches": self.batches, "times": self.times,
            "methods": self.methods, "rates": list(rates), "delay": delay,
            "ends": [(hosts.a, "vxa"), (hosts.b, "vxb")],
        }  # fmt: skip
        torchrun = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(self.blocks // 2),
            "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{A}:{PORT}", "--rdzv-id", "slow",
        ]  # fmt: skip
        with hosts.delayed(delay):
            pair = []
            for host, address in (("a", A), ("b", "10.77.0.2")):
                here = ["--local-addr", address, "--rdzv-conf", f"is_host={int(host == 'a')}"]
                words = [*torchrun, *here, "-m", "tests.hosts.timed_blocks", json.dumps(asked)]
                pair.append(hosts.start(host, words))
            out, errors = pair[0].communicate(timeout=timeout)
            ended(pair[1], 30)
        if pair[0].returncode:
            raise RuntimeError(errors)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, nargs="*", default=[0.0, 10.0])
    parser.add_argument("--rates", type=float, nargs="*", default=[80, 400])
    given = parser.parse_args()
    if words := why_not():
        print(words, file=sys.stderr)
        return 3
    off = 0
    with long_cable() as hosts:
        for delay in given.delay_ms:
            for row in Experiment().run(hosts, given.rates, delay / 1e3):
                print(json.dumps(row), flush=True)
                off += abs(row["simulated_over_timed"] - 1) > LIMIT
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main())

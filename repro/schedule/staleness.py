"""Layer-wise staleness DSP(p; m) and the constraint that ties its queues together (arXiv 1909.02625, Eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass

EXAMPLE = (
    '"1,1,0;4,2,0" (p before the semicolon, m after it) or "p=1 q=1" (the same for any number of blocks)'
)


@dataclass(frozen=True)
class Staleness:
    """Lengths of the output queues `p` and input queues `m` of K blocks; the gradient queues `q` follow.

    m[k] is the number of updates between a batch's forward and its backward in block k. With Eq. 6,
    q[k] = m[k-1] - p[k-1] - m[k] >= 1 for k = 1..K-1, the gradient of a batch meets the stored input of
    the same batch. The last block has m = p = 0: the paper prints m_k > 0 for all k, which its own
    settings contradict. Raises ValueError naming the constraint that does not hold.
    """

    p: tuple[int, ...]
    m: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.p) != len(self.m) or not self.p:
            raise ValueError(
                f"staleness '{self}' gives {len(self.p)} values of p and {len(self.m)} of m: "
                f"give one of each per block, as in {EXAMPLE}"
            )
        if min(self.p) < 0 or min(self.m) < 0:
            raise ValueError(f"staleness '{self}': p and m must not be negative")
        if self.m[-1] != 0 or self.p[-1] != 0:
            raise ValueError(
                f"staleness '{self}': the last block has p = 0 and m = 0, got p = {self.p[-1]} and m = {self.m[-1]}"
            )
        for k in range(1, len(self.p)):
            if self.q[k] < 1:
                raise ValueError(
                    f"staleness '{self}' breaks Eq. 6 at block {k}: "
                    f"q_{k} = m_{k - 1} - p_{k - 1} - m_{k} = {self.m[k - 1]} - {self.p[k - 1]} - {self.m[k]} "
                    f"= {self.q[k]}, but q_{k} >= 1 is needed"
                )

    @property
    def blocks(self) -> int:
        """K."""
        return len(self.m)

    @property
    def q(self) -> tuple[int, ...]:
        """Lengths of the gradient queues; q[0] = 0, block 0 sends no gradient."""
        return (0, *(self.m[k - 1] - self.p[k - 1] - self.m[k] for k in range(1, len(self.m))))

    @property
    def slack(self) -> tuple[int, ...]:
        """Batches of slack between block k and k+1: p[k] + q[k+1] = m[k] - m[k+1]."""
        return tuple(self.m[k] - self.m[k + 1] for k in range(len(self.m) - 1))

    def __str__(self) -> str:
        return ",".join(map(str, self.p)) + ";" + ",".join(map(str, self.m))

    @classmethod
    def uniform(cls, blocks: int, p: int, q: int) -> Staleness:
        """The same p and q at every boundary: m[k] = (p + q)(K-1-k), as in the paper's three settings."""
        return cls(
            tuple(p if k < blocks - 1 else 0 for k in range(blocks)),
            tuple((p + q) * (blocks - 1 - k) for k in range(blocks)),
        )

    @classmethod
    def parse(cls, text: str, blocks: int) -> Staleness:
        """Read "p;m" lists or the uniform "p=1 q=1" for `blocks` blocks; ValueError says what is wrong."""
        words = text.replace(",", " ").split()
        if len(words) == 2 and words[0].startswith("p=") and words[1].startswith("q="):
            try:
                p, q = int(words[0][2:]), int(words[1][2:])
            except ValueError:
                raise ValueError(f"staleness '{text}' is not of the form {EXAMPLE}") from None
            if p < 0 or q < 1:
                raise ValueError(f"staleness '{text}': p >= 0 and q >= 1 are needed (Eq. 6)")
            return cls.uniform(blocks, p, q)
        halves = text.split(";")
        try:
            p_list, m_list = (tuple(int(x) for x in half.split(",")) for half in halves)
        except ValueError:
            raise ValueError(f"staleness '{text}' is not of the form {EXAMPLE}") from None
        found = cls(p_list, m_list)
        if found.blocks != blocks:
            raise ValueError(
                f"staleness '{text}' is for {found.blocks} blocks, but blocks = {blocks}; the spacing of its "
                f"first block for {blocks} blocks is '{cls._respaced(found, blocks)}'"
            )
        return found

    @staticmethod
    def _respaced(found: Staleness, blocks: int) -> Staleness:
        if found.blocks == 1:
            return Staleness.uniform(blocks, 1, 1)
        return Staleness.uniform(blocks, found.p[0], found.q[1])

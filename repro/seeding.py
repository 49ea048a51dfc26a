"""Random seeds derived from (seed, purpose): the suite's only source of randomness."""

from __future__ import annotations

import hashlib


def derive(seed: int, *purpose: int | str) -> int:
    """Return a 63-bit seed that is a fixed function of `seed` and `purpose`.

    Parts are length-prefixed before hashing, so ("a", "bc") and ("ab", "c") differ. Neighbouring
    seeds give unrelated streams (BLAKE2b), and no process rank takes part: numbers never depend on K.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (seed, *purpose):
        text = f"{type(part).__name__}:{part}".encode()
        digest.update(len(text).to_bytes(4, "little"))
        digest.update(text)
    return int.from_bytes(digest.digest(), "little") >> 1

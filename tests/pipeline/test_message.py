"""Messages say what they are; what was not expected is refused with the field that differs."""

import pytest
import torch

from repro.engine.transport.message import Envelope
from repro.errors import RunFailed

SENT = Envelope("output", 7, 1, (2, 3, 4, 4), order=99)


def packed(envelope: Envelope) -> torch.Tensor:
    buffer = envelope.buffer()
    envelope.write(buffer)
    envelope.payload(buffer).copy_(torch.arange(96.0).view(envelope.shape))
    return buffer


def test_header_and_tensor_come_back() -> None:
    buffer = packed(SENT)
    assert Envelope("output", 7, 1, (2, 3, 4, 4)).check(buffer, 0) == 99
    assert torch.equal(SENT.payload(buffer), torch.arange(96.0).view(2, 3, 4, 4))
    assert SENT.payload(buffer).data_ptr() % 64 == 0


@pytest.mark.parametrize(
    ("expected", "field"),
    [
        (Envelope("gradient", 7, 1, (2, 3, 4, 4)), "stream output, expected gradient"),
        (Envelope("output", 8, 1, (2, 3, 4, 4)), "batch 7, expected 8"),
        (Envelope("output", 7, 0, (2, 3, 4, 4)), "micro-batch 1, expected 0"),
        (Envelope("output", 7, 1, (2, 3, 2, 8)), "shape (2, 3, 4, 4), expected (2, 3, 2, 8)"),
        (Envelope("output", 7, 1, (2, 3, 4, 4), torch.int64), "dtype torch.float32, expected torch.int64"),
    ],
)
def test_an_unexpected_message_is_refused(expected: Envelope, field: str) -> None:
    with pytest.raises(RunFailed) as caught:
        expected.check(packed(SENT), 3)
    assert field in str(caught.value)
    assert "block 3" in str(caught.value)


def test_garbage_has_no_header() -> None:
    with pytest.raises(RunFailed, match="no valid header"):
        SENT.check(torch.zeros(HEADER, dtype=torch.uint8), 0)


HEADER = 128 + 96 * 4

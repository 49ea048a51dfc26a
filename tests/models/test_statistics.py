"""Deferred BatchNorm statistics: as if the whole mini-batch had passed at once."""

import pytest
import torch
from torch import nn

from repro.models.norm_statistics import DeferredStatistics, batch_norms, set_tracking


@pytest.mark.parametrize("sizes", [(8,), (5, 3), (3, 3, 2), (1, 7)])
def test_micro_batches_leave_the_statistics_of_the_whole_batch(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 4, 5, 5) * 3 + 1
    whole, parts = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    whole(x)
    deferred = DeferredStatistics([parts])
    set_tracking([parts], False)
    deferred.active = True
    for part in x.split(list(sizes)):
        own = nn.BatchNorm2d(4)
        torch.testing.assert_close(parts(part), own(part))  # each normalises by itself
    deferred.active = False
    assert int(parts.num_batches_tracked) == 0
    deferred.commit()
    torch.testing.assert_close(parts.running_mean, whole.running_mean)
    torch.testing.assert_close(parts.running_var, whole.running_var)
    assert int(parts.num_batches_tracked) == 1


def test_forwards_outside_leave_no_trace() -> None:
    norm = nn.BatchNorm2d(4)
    deferred = DeferredStatistics([norm])
    set_tracking(batch_norms(norm), False)
    norm(torch.randn(8, 4, 5, 5))
    deferred.commit()
    assert int(norm.num_batches_tracked) == 0
    assert torch.equal(norm.running_mean, torch.zeros(4))

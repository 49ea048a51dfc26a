"""Approximated filter gradients: estimators, schedules, kernels, and the convolution that uses them."""

from repro.gradient.approximation import Approximation, attach, check_kernel
from repro.gradient.numbering import number_convolutions, trace
from repro.gradient.schedules import build as build_schedule

__all__ = ["Approximation", "attach", "build_schedule", "check_kernel", "number_convolutions", "trace"]

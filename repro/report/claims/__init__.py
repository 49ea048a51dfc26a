"""The papers' claims, each with a verdict that is computed from stored runs and never typed by hand."""

from __future__ import annotations

from repro.report.claims import asynchronous_papers as asynchronous
from repro.report.claims import dsp_paper as dsp
from repro.report.claims import gradient_paper as gradient
from repro.report.claims.claim import Claim, Finding
from repro.report.claims.evidence import Evidence
from repro.report.claims.verdicts import VERDICTS

CLAIMS = (*dsp.CLAIMS, *gradient.CLAIMS, *asynchronous.CLAIMS)

__all__ = ["CLAIMS", "VERDICTS", "Claim", "Evidence", "Finding"]

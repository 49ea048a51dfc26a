"""One colour and one marker a method, in every figure."""

from pathlib import Path
from typing import Any, get_args

import pytest

from repro.methods import BUILT_IN as METHODS
from repro.recipe.schema import GradientSpec
from repro.report import figures, tables
from repro.report.figures import palette
from repro.report.pages.formats import render
from repro.report.stored.source import Source
from tests.report.factory import write_benches
from tests.report.reference_set import write_reference
from tests.report.stale_set import write_stale

EVERY = {**palette.METHODS, **palette.ESTIMATORS, **palette.PEERS, "own": palette.OWN}


def test_every_method_and_estimator_has_a_look_of_its_own() -> None:
    assert set(METHODS) == set(palette.METHODS)
    assert set(get_args(GradientSpec.model_fields["estimator"].annotation)) == set(palette.ESTIMATORS)
    assert len(set(EVERY.values())) == len(EVERY)
    for family in (palette.METHODS, palette.ESTIMATORS):
        assert len({marker for _, marker in family.values()}) == len(family), (
            "told apart in grey by the marker"
        )
        assert len({colour for colour, _ in family.values()}) == len(family)


def test_a_look_depends_on_the_label_alone() -> None:
    labels = [
        "BP",
        "FR (free)",
        "FR (mailbox)",
        "DSP(1,0;2,0)",
        "DSP(2,0;3,0)",
        "torch 1F1B, M = 4",
        "cDNI",
        "2BW(M=4)",
    ]
    together = palette.label_styles(labels)
    assert together == palette.label_styles(reversed(labels))
    for label in labels:
        assert palette.label_styles([label])[label] == together[label]
    assert together["BP"] == palette.METHODS["bp"]
    assert together["FR (mailbox)"] == palette.METHODS["fr"]
    assert together["cDNI"][1] == palette.METHODS["dni"][1]
    assert palette.label_styles(["DSP(1,1,0;4,2,0)"])["DSP(1,1,0;4,2,0)"] == together["DSP(1,0;2,0)"]


def test_settings_are_shades_of_one_hue() -> None:
    found = palette.label_styles(f"DSP({p},0;{p + 1},0)" for p in (1, 2, 5))
    assert {marker for _, marker in found.values()} == {palette.METHODS["dsp"][1]}
    light, middle, dark = (sum(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c, _ in found.values())
    assert light > middle > dark
    many = palette.label_styles(f"BP, lr {i}" for i in range(40))
    assert len(set(many.values())) == 40
    assert many["BP, lr 0"] == palette.METHODS["bp"]


@pytest.fixture
def whole(reference: Path) -> Source:
    write_reference(reference)
    write_stale(reference)
    write_benches(reference)
    return Source(reference, reference=True)


def test_every_curve_of_every_figure_has_a_look_of_the_palette(
    whole: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every mark that is drawn: its marker and a shade of its method's colour."""
    from matplotlib.axes import Axes
    from matplotlib.colors import to_hex

    drawn: set[tuple[str, str]] = set()
    plot = Axes.plot

    def noted(self: Any, *values: Any, **looks: Any) -> Any:
        lines = plot(self, *values, **looks)
        drawn.update(
            (to_hex(line.get_color()).upper(), str(line.get_marker()))
            for line in lines
            if line.get_marker() not in ("None", "none", "|", None)
        )
        return lines

    monkeypatch.setattr(Axes, "plot", noted)
    for name in figures.names():
        if name not in ("queues", "schedules", "timeline"):
            encode, _ = figures.draw_from(name, whole)
            assert encode is not None, name
    markers: dict[str, list[str]] = {}
    for colour, marker in EVERY.values():
        markers.setdefault(marker, []).append(colour)
    assert len(drawn) > 15
    for colour, marker in drawn:
        assert any(_shade(colour, base) for base in markers[marker]), (colour, marker)


def _shade(colour: str, base: str) -> bool:
    """Whether `colour` is `base` mixed with black or white."""
    return any(
        all(abs(int(colour[i : i + 2], 16) - int(mixed[i : i + 2], 16)) <= 2 for i in (1, 3, 5))
        for t in range(-100, 101)
        for mixed in [palette.shade(base, t / 100)]
    )


def test_the_claims_fit_a_terminal_of_120_columns(whole: Source, tmp_path: Path) -> None:
    for source in (whole, Source(tmp_path / "none", fallback=False)):
        lines = render(tables.build_from("claims", source), "txt").splitlines()
        assert len(lines) > 40
        assert max(map(len, lines)) <= 120
        assert any(line.startswith("D1  DSP trains faster") for line in lines)

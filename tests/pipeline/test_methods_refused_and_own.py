"""The worked example of docs/own-method.md, run as it is printed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.verification import compare
from tests.conftest import ROOT


def test_the_documented_method_equals_the_oracle(
    tiny: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "own-method.md").read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    file = tmp_path / "patient.py"
    file.write_text(found.group(1).replace("./patient.py", str(file)))
    monkeypatch.chdir(tmp_path)
    recipe = tiny(method={"name": f"{file}:Patient", "extra": 2}, blocks=3, max_steps=12)
    result = compare(recipe, 0, "cpu", tmp_path)
    assert result.holds(0.0), "\n".join(result.lines(0.0))
    assert recipe.method.label(3) == "Patient(2)"


def test_a_method_that_deadlocks_is_refused_before_any_process(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    from repro.errors import UserError
    from repro.planning.run_plan import make_plan

    file = tmp_path / "stuck.py"
    file.write_text(
        "from typing import Literal\n"
        "from repro.methods import Method\n"
        "from repro.schedule.decoupled import decoupled\n"
        "class Stuck(Method):\n"
        f"    name: Literal['{file}:Stuck'] = '{file}:Stuck'\n"
        "    def schedule(self, blocks, num_batches, evaluations):\n"
        "        m = tuple(2 * (blocks - 1 - k) for k in range(blocks))\n"
        "        return decoupled(num_batches=num_batches, m=m, p=(1,) * blocks, q=(1,) * blocks, recompute=True,\n"
        "                         evaluations=evaluations, grow_at_evaluation=False)\n"
    )
    with pytest.raises(UserError, match="deadlocks: block 0 waits for room"):
        make_plan(tiny(method={"name": f"{file}:Stuck"}, blocks=3), "cpu")


def test_dni_needs_feature_maps_between_blocks(tiny: Callable[..., Any]) -> None:
    from repro.errors import UserError
    from repro.planning.run_plan import make_plan

    recipe = tiny(method={"name": "dni"}, model={"name": "cnn2"}, blocks=2, cut=[3])
    with pytest.raises(
        UserError, match=r"needs feature maps .* block 0 ends with layer fc1 of shape \[384\]"
    ):
        make_plan(recipe, "cpu")

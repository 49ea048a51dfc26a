"""`repro list` without words: what there is of each paper, and how names are built, on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import yaml

from repro import paths
from repro.recipe.load import GROUPS
from repro.recipe.matrix import Choice, Matrix
from repro.recipe.reading import LOADER
from repro.recipe.suite import matrices

WIDTH = 100


def overview() -> str:
    """At most 40 lines of at most 100 columns."""
    found = sorted(matrices(), key=lambda m: (GROUPS.index(m.group), -sum(map(len, m.listed.values()))))
    count = sum(len(row) for matrix in found for row in matrix.listed.values())
    lines = [f"{count} recipes. A name is [EXPERIMENT-]METHOD-NETWORK[-kK][-VARIANT], and any K works."]
    titles = yaml.load(paths.published().read_text(encoding="utf-8"), Loader=LOADER)["papers"]
    for group in dict.fromkeys(matrix.group for matrix in found):
        lines += ["", *_wrapped("", f"{group}: {titles.get(group, '')}")]
        for title, text in _paper([matrix for matrix in found if matrix.group == group]):
            lines += _wrapped(f"  {title:<13}", text)
    lines += [
        "",
        *_wrapped(
            "Narrow down: ",
            "repro list dsp resnet98, repro list --method fr --data imagenet (--help says more)",
        ),
        *_wrapped("Then:        ", "repro show NAME, repro run NAME --profile quick --seeds 5"),
    ]
    return "\n".join(lines)


def _paper(found: Sequence[Matrix]) -> list[tuple[str, str]]:
    """The lines of one paper: title and text."""
    choices = [(matrix, choice) for matrix in found for row in matrix.listed.values() for choice in row]
    ks = sorted({choice.blocks for _, choice in choices if choice.blocks})
    usual = ", ".join(sorted({str(matrix.blocks) for matrix in found}))
    rows = [
        ("networks", _networks(found)),
        ("methods", ", ".join(_methods(found, ""))),
        (
            "K",
            f"{usual} where a name gives none"
            + (f"; listed too: {', '.join(f'k{k}' for k in ks)}" if ks else ""),
        ),
        ("variants", _variants(found, "")),
    ]
    experiments = dict.fromkeys(matrix.words(choice.key)[0] for matrix, choice in choices)
    rows += zip(("experiments", "", ""), (_experiment(found, e) for e in experiments if e), strict=False)
    return [*rows, ("examples", _examples(found))]


def _experiment(found: Sequence[Matrix], experiment: str) -> str:
    having = [m for m in found if any(m.words(key)[0] == experiment for key in m.listed)]
    networks = ", ".join(matrix.network for matrix in having)
    methods = ", ".join(_methods(having, experiment))
    return f"{experiment}: {methods} with {networks}; variants {_variants(having, experiment)}"


def _networks(found: Sequence[Matrix]) -> str:
    by_data: dict[str, list[str]] = {}
    for matrix in found:
        by_data.setdefault(str(matrix.settings["data"]["name"]), []).append(matrix.network)
    return "; ".join(f"{', '.join(names)} ({data})" for data, names in by_data.items())


def _methods(found: Sequence[Matrix], experiment: str) -> list[str]:
    """In the order in which the files explain them."""
    used = {
        method for m in found for key in m.listed for front, method in [m.words(key)] if front == experiment
    }
    return [
        method for method in dict.fromkeys(word for m in found for word in m.raw["methods"]) if method in used
    ]


def _variants(found: Sequence[Matrix], experiment: str) -> str:
    """Each variant with the methods that have it, and with the networks where these are not all."""
    owners: dict[str, tuple[set[str], dict[str, None]]] = {}
    for matrix in found:
        for key in matrix.listed:
            front, method = matrix.words(key)
            for word in _flat(matrix.variants(key)) if front == experiment else ():
                methods, networks = owners.setdefault(word, (set(), {}))
                methods.add(method)
                networks[matrix.network] = None
    same: dict[str, list[str]] = {}
    for word, (methods, networks) in owners.items():
        text = ", ".join(method for method in _methods(found, experiment) if method in methods)
        if len(networks) < len(found):
            text += f" with {', '.join(networks)}"
        same.setdefault(text, []).append(word)
    return "; ".join(f"{', '.join(words)} ({text})" for text, words in same.items())


def _examples(found: Sequence[Matrix]) -> str:
    """Of the network with most recipes and its method with most variants: plain, with another K, with a variant."""
    matrix = found[0]
    training = [key for key in reversed(matrix.listed) if not matrix.words(key)[0]]
    key = max(training, key=lambda key: len(matrix.listed[key]))
    first, *others = matrix.variants(key)
    examples = [Choice(key, None, first), Choice(key, 5, first), *(Choice(key, 2, v) for v in others[:1])]
    examples += [row[-1] for front, row in matrix.listed.items() if matrix.words(front)[0]][-1:]
    return ", ".join(map(matrix.name, examples))


def _flat(variants: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(word for words in variants for word in words))


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=title, subsequent_indent=" " * len(title), break_on_hyphens=False
    )

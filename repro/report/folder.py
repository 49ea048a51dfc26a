"""A package that holds things with a name, a file each: `tables/speedup_table.py`, `figures/loss_figure.py`."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from repro.errors import UserError, nearest


class Folder:
    """The modules `<name>_<kind>` of `package`, by names with hyphens; a new file there is a new name.

    Modules whose name ends otherwise are what the things share.
    """

    def __init__(self, package: str, file: str, kind: str) -> None:
        self.package, self.path, self.kind = package, Path(file).parent, kind

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names in order; imports nothing."""
        ending = f"_{self.kind}"
        found = (module.name for module in iter_modules([str(self.path)]) if module.name.endswith(ending))
        return tuple(sorted(name.removesuffix(ending).replace("_", "-") for name in found))

    def module(self, name: str) -> Any:
        """The module `name`. UserError for an unknown one."""
        if name not in self.names:
            raise UserError(
                f"unknown {self.kind} '{name}'.{nearest(name, self.names)} Allowed: {', '.join(self.names)}"
            )
        return import_module(f"{self.package}.{name.replace('-', '_')}_{self.kind}")

    def descriptions(self) -> dict[str, str]:
        """Every name with its module's DESCRIPTION."""
        return {name: str(self.module(name).DESCRIPTION) for name in self.names}

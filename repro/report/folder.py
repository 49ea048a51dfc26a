"""A package whose every module is one thing with a name: tables and figures."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from repro.errors import UserError, nearest


class Folder:
    """The modules of `package`, by names with hyphens; a new file there is a new name. `kind` = what one is called."""

    def __init__(self, package: str, file: str, kind: str) -> None:
        self.package, self.path, self.kind = package, Path(file).parent, kind

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names in order; imports nothing."""
        found = (module.name for module in iter_modules([str(self.path)]))
        return tuple(sorted(name.replace("_", "-") for name in found if not name.startswith("_")))

    def module(self, name: str) -> Any:
        """The module `name`. UserError for an unknown one."""
        if name not in self.names:
            raise UserError(f"unknown {self.kind} '{name}'.{nearest(name, self.names)} Allowed: {', '.join(self.names)}")
        return import_module(f"{self.package}.{name.replace('-', '_')}")

    def descriptions(self) -> dict[str, str]:
        """Every name with its module's DESCRIPTION."""
        return {name: str(self.module(name).DESCRIPTION) for name in self.names}

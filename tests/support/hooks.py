"""The hooks of the site, which are scripts and not part of any package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

HOOKS = Path(__file__).parents[2] / "docs" / "hooks"


def load_hook(name: str) -> ModuleType:
    """A hook as a module; needs mkdocs."""
    full = f"site_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, HOOKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]

"""Language models as perception: distributions over what a causal model would say.

Nothing here is imported by `import dolphin`; transformers is imported only to load a model.
"""

from dolphin.lm.model import LanguageModel
from dolphin.lm.package import ModelError
from dolphin.lm.symbols import OTHER, Other

__all__ = ["OTHER", "LanguageModel", "ModelError", "Other"]

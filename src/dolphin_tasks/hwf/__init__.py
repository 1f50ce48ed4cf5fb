"""HWF: read handwritten formulas, knowing only their values."""

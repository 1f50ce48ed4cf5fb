"""HWF: read handwritten formulas, knowing only what they come to."""

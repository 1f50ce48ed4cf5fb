"""Display in notebooks and terminals, and drawings. Nothing else depends on it."""

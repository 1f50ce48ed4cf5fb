"""How things look: in a notebook, in a terminal, as a drawing. Nothing else depends on it."""

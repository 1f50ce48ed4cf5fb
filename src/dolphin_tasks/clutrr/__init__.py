"""CLUTRR: tell how two people of a story are related when no sentence says it."""

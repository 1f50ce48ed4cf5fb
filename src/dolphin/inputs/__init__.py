"""From the numbers and symbols that a user builds a distribution from to tags, checked."""

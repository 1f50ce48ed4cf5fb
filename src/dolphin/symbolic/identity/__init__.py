"""When two user functions are the same, by all that they read."""

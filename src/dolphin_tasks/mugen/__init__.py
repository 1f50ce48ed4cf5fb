"""Mugen: which caption belongs to which clip of a platform game? The order of actions decides."""

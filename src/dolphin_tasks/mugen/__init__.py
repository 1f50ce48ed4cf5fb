"""Mugen: match captions to clips of a platform game, by the order of actions."""

"""Terrain: learn what ground costs from cheapest paths across maps."""

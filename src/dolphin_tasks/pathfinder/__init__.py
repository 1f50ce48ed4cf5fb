"""PathFinder: whether a dashed contour joins two discs, learnt from yes or no."""

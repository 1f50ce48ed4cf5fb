"""PathFinder: are two discs joined by a dashed contour? Learnt from yes or no."""

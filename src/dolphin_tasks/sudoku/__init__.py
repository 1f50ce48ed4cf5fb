"""Visual Sudoku: whether a board of handwritten digits is valid, and the solution of a puzzle."""

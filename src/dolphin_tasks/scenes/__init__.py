"""Scenes: learn shapes, colours and sizes from answers to questions, each a program of its own."""

"""Arithmetic word problems: a language model reads, a program calculates."""

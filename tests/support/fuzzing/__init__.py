"""Random programs, what they must give by the definitions, and whether Dolphin gives it.

A program is a *text*: a script that anybody can run. The same text is executed twice, once with
`dl` and `torch` as they are, once with the plain-Python stand-ins of `reference.py`, which share no
code with the library:

    generate.py    random programs, as text
    endings.py     what is rare among them
    jets.py        numbers with derivatives
    diagrams.py    decision diagrams: exact probabilities
    semirings.py   every provenance by its definition
    reference.py   distributions and operations by their definitions
    check.py       runs a program both ways and compares whatever can be read of the result
    shrink.py      the smallest program that still fails
"""

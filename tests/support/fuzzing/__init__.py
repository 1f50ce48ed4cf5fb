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
    running.py     runs a program both ways
    comparing.py   compares numbers and derivatives
    readings.py    compares whatever else can be read of the result
    check.py       all of that for one program
    shrink.py      the smallest program that still fails
    campaign.py    many programs
    processes.py   in processes of their own, which may die
"""

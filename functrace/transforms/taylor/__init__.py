"""Taylor mode: derivatives of any order along a curve, by recurrences for Taylor coefficients.

    series.py     power series that are computed coefficient by coefficient, and the walk over a program
    rules.py      recurrences of products, quotients and powers, one row per primitive
    collapsed.py  first-order coefficients along many directions, and the sum of second-order ones

Loops and branches are in functrace/control/taylor.py, since their bodies are programs.

Layer: 4.
"""

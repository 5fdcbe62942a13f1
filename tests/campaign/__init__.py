"""A campaign: random and exhaustive checks of what docs/guarantees.md promises.

    make campaign BUDGET=60                                            all rows, 60 minutes
    python -m tests.campaign --minutes 5 trainers kill                 two rows
    python -m tests.campaign trainers --seed 7 --case 12               one case again

A row is a function that checks one case and returns how many things it has checked; see `row.py`.
The files `*_rows.py` contain the rows, `promises.py` says which rows prove which sentence of
docs/guarantees.md, `runner.py` runs the cases of a row in another process, and `report.py` writes
docs/reliability.md.
"""

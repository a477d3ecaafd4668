"""One file, one experiment: every module here with an `EXPERIMENT` is found by its name.

This file must stay empty of code: importing it must not import an experiment.
"""

"""`python -m sparsefinder`: the command line."""

from .lab.cli import main

main()

"""`python -m sparsefinder`: the command line."""

from .cli import main

main()

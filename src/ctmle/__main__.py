"""`python -m ctmle` is `ctmle`."""

from ctmle.cli import main

main()

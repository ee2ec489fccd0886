"""`python -m ctmle` is `ctmle`."""

from ctmle.lab.cli.main import main

main()

"""`python -m rlvr_cli` is `rlvr`, as torchrun's `-m rlvr_cli` needs it."""

from rlvr_cli.cli.app import main

if __name__ == "__main__":
    main()

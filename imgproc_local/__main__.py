"""`python -m imgproc_local`: the same program as the `imgproc-local` command."""

from imgproc_local.cli import main

if __name__ == "__main__":
    main()

"""`python -m fedswe` is the command `fedswe`."""

from fedswe.cli import main

if __name__ == "__main__":
    main()

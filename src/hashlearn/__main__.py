"""``python -m hashlearn`` is ``hashlearn``."""

from hashlearn.cli import main

if __name__ == "__main__":
    main()

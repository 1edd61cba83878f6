"""``python -m sparrow`` is the command ``sparrow``."""

from __future__ import annotations

from sparrow.cli import main

if __name__ == "__main__":
    main()

"""`python -m controller` as users have it: kio imports hypothesis where a development environment offers it (7 MiB)."""

import sys

if __name__ == "__main__":
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # so that importing it raises ImportError
    from controller.__main__ import main

    main()

"""`python -m controller` as users have it: kio imports hypothesis where a development environment offers it (7 MiB)."""

import sys

sys.modules["hypothesis"] = None  # type: ignore[assignment]  # so that importing it raises ImportError

from controller.__main__ import main  # noqa: E402  # after what it must not find

if __name__ == "__main__":
    main()

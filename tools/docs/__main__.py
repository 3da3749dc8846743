"""`python tools/docs build FOLDER` writes the documentation site. The exit status is 1 if a page is missing from the navigation.

`python tools/docs api` writes docs/reference/admin-api-requests.md from the description of the admin API.
"""

import sys
from pathlib import Path

import api_reference


def main(arguments: list[str]) -> int:
    match arguments:
        case ["build", folder]:
            # The Markdown renderer is installed only for building the site.
            from site_pages import build

            faults = build(Path(folder).resolve())
        case ["api"]:
            api_reference.PAGE.write_text(api_reference.current())
            return 0
        case _:
            print(__doc__)
            return 1
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

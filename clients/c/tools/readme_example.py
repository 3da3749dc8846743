"""Prints the first C example of a Markdown file, so that it can be compiled unchanged."""

import re
import sys
from pathlib import Path

found = re.search(r"^```c\n(.*?)^```", Path(sys.argv[1]).read_text(), re.M | re.S)
if not found:
    sys.exit(f"{sys.argv[1]} contains no C example")
print(found[1], end="")

"""Converts the SCRAM vectors to C: `scram_table.py CASES.json OUTPUT.h`. A text is its bytes and
their number."""

import json
import sys
from pathlib import Path

TEXTS = ["user", "password", "client_nonce", "client_first", "server_first", "client_final", "server_final"]


def text(value: str | None) -> str:
    if value is None:
        return "{NULL, 0}"
    data = value.encode()
    escaped = "".join(f"\\{byte:03o}" for byte in data)
    return f'{{"{escaped}", {len(data)}}}'


def main() -> int:
    source, output = sys.argv[1:]
    rows = []
    for vector in json.loads(Path(source).read_text())["vectors"]:
        texts = ", ".join(text(vector.get(name)) for name in TEXTS)
        rows.append(f'    {{"{vector["id"]}", "{vector["mechanism"]}", {texts}, "{vector["result"]}"}},')
    Path(output).write_text("static const scram_vector SCRAM_VECTORS[] = {\n" + "\n".join(rows) + "\n};\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

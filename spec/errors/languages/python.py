"""The table of the Python package."""

from words import Code, of


def client(codes: list[Code]) -> str:
    rows = "".join(f'    "{code.name}": "{code.text}",\n' for code in of(codes, "python", "client"))
    return f'''\
"""Written by `make errors` from spec/errors/errors.toml."""

TEXTS = {{
{rows}}}
"""What is wrong and, after a colon, what to do, for each code of an error."""
'''

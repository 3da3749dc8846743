"""The cases, one module per file of vectors. Each offers `build() -> VectorFile` or a list of them.

Inside the cases a packet is a dict as in the vectors, but binary values are `bytes` under the plain name (`payload`,
`password`); `VectorFile` turns them into hex, and long runs into parts.
"""

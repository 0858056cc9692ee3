"""The embedded back end: models in PyTorch, run step by step by one host for all sessions.

`host` runs the engines on a thread of its own and `client` is its asyncio side; above them,
only the interfaces of `engines.base` are seen.
"""

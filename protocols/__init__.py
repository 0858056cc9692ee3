"""Wire forms to session events and back.

Each protocol is a pure codec (frames in, inputs out; outputs in, frames out) and a thin
door in a file named `server.py`, which alone moves bytes, time and tasks. The room knows
sessions by `streams.events` and `streams.sessions`; of models, turns and scheduling it
knows nothing.
"""

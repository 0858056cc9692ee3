"""Models behind small interfaces: token ids, embeddings and samples, in bounded steps.

This room knows nothing of text, audio formats, sessions or clients.
"""

"""Speech to text: 16 kHz mono in, words with their times out, of streams and of files.

This room finds speech, decides when it has ended, writes it down and refuses to believe
hallucinations. It knows nothing of sessions, wire formats or which back end runs a model.
"""

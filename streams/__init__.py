"""One session core for every protocol: turns, barge-in, playout, admission.

It knows no wire format: protocols translate to and from `streams.events`.
"""

"""Text to speech: a stream of text in, samples at the voice's own rate out.

This room cleans, spells out and cuts text so that the first clause can be spoken while the
rest is still being written. It knows nothing of sessions, wire formats or which back end
runs a voice.
"""

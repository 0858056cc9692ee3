"""One network a module, written after its paper or its published weights.

Whisper, the llama family and Silero, with Whisper's input layer beside them. What is loaded
from which file, and when a step runs, is decided elsewhere.
"""

"""Language: a conversation in, the assistant's next turn out while it is being made.

This room renders chat templates, keeps prompts within a model's memory and turns tokens
back into text. It knows nothing of speech, sessions, wire formats or which back end runs a
model.
"""

"""The command and the wiring: configuration, models, metrics, the page, and the server.

This room sees all others, and no other may import it. It does not know how anything is
done: it only chooses, connects, starts and stops.
"""

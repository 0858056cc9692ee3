"""One target of `antiphon bench` a module: speed beside quality, from outside the server."""
